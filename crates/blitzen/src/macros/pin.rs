/// Pins values on the stack, or in the enclosing future.
///
/// `pin!(name)` shadows `name` with a `Pin<&mut _>` to its value. `pin! { let name =
/// value; }` creates the value first. Both accept several names.
///
/// A future must be pinned before a loop can poll it by reference in
/// [`select!`](crate::select!). [`std::pin::pin!`] pins the value of an expression.
///
/// # Examples
///
/// ```
/// async fn answer() -> u32 {
///     42
/// }
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let future = answer();
/// blitzen::pin!(future);
/// assert_eq!((&mut future).await, 42);
/// # }
/// ```
///
/// With `let`:
///
/// ```
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// blitzen::pin! {
///     let one = async { 1 };
///     let two = async { 2 };
/// }
/// assert_eq!(blitzen::join!(one, two), (1, 2));
/// # }
/// ```
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
