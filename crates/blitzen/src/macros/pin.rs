/// Pins values where they stand, on the stack or in the enclosing future.
///
/// A name given to it becomes a `Pin<&mut _>` to the value it had:
///
/// ```
/// # blitzen_util::block_on::block_on(async {
/// async fn answer() -> u32 {
///     42
/// }
///
/// let future = answer();
/// blitzen::pin!(future);
/// assert_eq!((&mut future).await, 42);
/// # })
/// ```
///
/// A future must be pinned like this before a loop can wait for it by
/// reference in [`select!`](crate::select!). Several names can be given, and
/// values can be made on the spot:
///
/// ```
/// # blitzen_util::block_on::block_on(async {
/// blitzen::pin! {
///     let one = async { 1 };
///     let two = async { 2 };
/// }
/// assert_eq!(blitzen::join!(one, two), (1, 2));
/// # })
/// ```
///
/// `std::pin::pin!` does the same for an expression.
#[macro_export]
macro_rules! pin {
    ($($name:ident),* $(,)?) => { $(
        #[allow(unused_mut)]
        let mut $name = $crate::macros::support::pin!($name);
    )* };
    ($(let $name:ident = $value:expr;)*) => { $(
        #[allow(unused_mut)]
        let mut $name = $crate::macros::support::pin!($value);
    )* };
}
