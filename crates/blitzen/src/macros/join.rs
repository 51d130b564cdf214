/// Waits for several futures at once, and returns their outputs as a tuple.
///
/// The call accepts any number of futures, of any types, and values that convert into
/// futures. All of them run on the calling task: concurrently, not in parallel. Spawn them,
/// and join the handles, to use more than one worker.
///
/// See [`join_all`] for futures in a collection, and [`future::join`] for a function that
/// does the same.
///
/// # Order
///
/// Each time the task is woken, the futures that are not done are polled, starting with
/// another one than the time before: a future that spends the task's budget cannot starve
/// the others. With `biased;` in front the futures are polled in the order in which they
/// are written. That costs a little less, and leaves fairness to the caller.
///
/// # Examples
///
/// ```
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let (number, word) = blitzen::join!(async { 1 }, async { "two" });
/// assert_eq!((number, word), (1, "two"));
/// # }
/// ```
///
/// On several workers:
///
/// ```
/// #[blitzen::main]
/// async fn main() {
///     let one = blitzen::spawn(async { 1 });
///     let two = blitzen::spawn(async { 2 });
///     let (one, two) = blitzen::join!(one, two);
///     assert_eq!(one.unwrap() + two.unwrap(), 3);
/// }
/// ```
///
/// In a fixed order:
///
/// ```
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let outputs = blitzen::join!(biased; async { 1 }, async { 2 });
/// assert_eq!(outputs, (1, 2));
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future that contains the call drops all futures, and the outputs of those
/// that are done.
///
/// [`join_all`]: crate::future::join_all
/// [`future::join`]: crate::future::join
#[macro_export]
macro_rules! join {
    (biased; $($future:expr),* $(,)?) => {
        $crate::macros::support::join_biased_expand!([$crate] $(($future))*)
    };
    ($($future:expr),* $(,)?) => {
        $crate::macros::support::join_expand!([$crate] $(($future))*)
    };
}

/// Waits for several futures at once until all have succeeded or one has failed.
///
/// Each future must return a `Result`, and all must have the same error type. The call
/// returns `Ok` with a tuple of the outputs, or the first error. The first error is
/// returned at once; the other futures are dropped.
///
/// See [`try_join_all`] for futures in a collection, and [`future::try_join`] for a
/// function that does the same. The order of polling is that of [`join!`](crate::join!),
/// `biased;` included.
///
/// # Examples
///
/// ```
/// async fn number(text: &str) -> Result<u32, std::num::ParseIntError> {
///     text.parse()
/// }
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let both = blitzen::try_join!(number("1"), number("2"));
/// assert_eq!(both, Ok((1, 2)));
///
/// let failed = blitzen::try_join!(number("1"), number("two"));
/// assert!(failed.is_err());
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future that contains the call drops all futures, and the outputs of those
/// that are done. So does an error: use only futures that may stop at any `.await`.
///
/// # Errors
///
/// Returns the first error of a future.
///
/// [`try_join_all`]: crate::future::try_join_all
/// [`future::try_join`]: crate::future::try_join
#[macro_export]
macro_rules! try_join {
    (biased; $($future:expr),* $(,)?) => {
        $crate::macros::support::try_join_biased_expand!([$crate] $(($future))*)
    };
    ($($future:expr),* $(,)?) => {
        $crate::macros::support::try_join_expand!([$crate] $(($future))*)
    };
}
