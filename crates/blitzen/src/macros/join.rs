/// Waits for several futures at once and returns all their outputs, as a tuple.
///
/// ```
/// # blitzen_util::block_on::block_on(async {
/// let (number, word) = blitzen::join!(async { 1 }, async { "two" });
/// assert_eq!((number, word), (1, "two"));
/// # })
/// ```
///
/// Any number of futures of any types, or of values that turn into futures. All
/// of them run on the calling task: concurrently, not in parallel. To use more
/// than one worker, spawn them and join the handles:
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
/// Where the futures are in a collection, see [`join_all`]; where no macro
/// fits, [`future::join`].
///
/// # Order
///
/// Each time the task is woken, the futures that are not done are polled,
/// starting with another one than the time before: one that uses up the task's
/// budget cannot starve the others. With `biased;` in front they are polled in
/// the order in which they are written, which costs a little less; then the
/// fairness is yours to see to.
///
/// ```
/// # blitzen_util::block_on::block_on(async {
/// let outputs = blitzen::join!(biased; async { 1 }, async { 2 });
/// assert_eq!(outputs, (1, 2));
/// # })
/// ```
///
/// # Cancel safety
///
/// Dropping the future that contains the call drops all the futures, and the
/// outputs of those that were done.
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

/// Waits for several futures at once until all have succeeded or one has
/// failed.
///
/// Each future must return a `Result` with the same error. The outputs come as
/// `Ok` of a tuple; the first error comes at once, and the other futures are
/// dropped.
///
/// ```
/// # blitzen_util::block_on::block_on(async {
/// async fn number(text: &str) -> Result<u32, std::num::ParseIntError> {
///     text.parse()
/// }
///
/// let both = blitzen::try_join!(number("1"), number("2"));
/// assert_eq!(both, Ok((1, 2)));
///
/// let failed = blitzen::try_join!(number("1"), number("two"));
/// assert!(failed.is_err());
/// # })
/// ```
///
/// Where the futures are in a collection, see [`try_join_all`]; where no macro
/// fits, [`future::try_join`].
///
/// # Order
///
/// As in [`join!`](crate::join!): each poll starts with another future, unless
/// `biased;` stands in front.
///
/// # Cancel safety
///
/// Dropping the future that contains the call drops all the futures, and the
/// outputs of those that were done. So does an error: a future that must not
/// stop halfway does not belong here.
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
