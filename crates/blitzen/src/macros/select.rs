/// Waits for several futures, and runs the handler of the one that is ready first.
///
/// # Syntax
///
/// ```text
/// select! {
///     biased;                                             (optional)
///     <pattern> = <future> => <handler>,
///     <pattern> = <future>, if <precondition> => <handler>,
///     else => <handler>,                                  (optional)
/// }
/// ```
///
/// There can be up to 64 branches. A handler is an expression; the comma after a block is
/// optional. The value of the call is the value of the handler that ran, so all handlers
/// have the same type. The call must be inside an `async` function or block.
///
/// 1. All preconditions are evaluated. A branch whose precondition is `false` is disabled.
/// 2. All future expressions are evaluated, also those of disabled branches. The futures
///    of disabled branches are never polled.
/// 3. The futures are polled on the calling task: concurrently, not in parallel.
/// 4. When a future is ready, its output is compared with the pattern. If it does not
///    match, the branch is disabled, and the others are polled further.
/// 5. If it matches, **all futures are dropped**. Then the handler runs; it may use
///    whatever the futures had borrowed.
/// 6. If all branches are disabled, the handler of `else` runs.
///
/// # Fairness
///
/// Each poll starts with a random branch, so a branch that is always ready cannot starve
/// the others. With `biased;` the futures are polled in the order in which they are
/// written. That costs less, and gives a branch priority, such as one that waits for a
/// shutdown signal. Put branches that are often ready last.
///
/// The call spends none of the task's budget, and does not poll when the budget is spent:
/// a loop around it lets other tasks run.
///
/// # Examples
///
/// ```
/// use std::future::{pending, ready};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let answer = blitzen::select! {
///     number = ready(42) => number,
///     _ = pending::<()>() => unreachable!(),
/// };
/// assert_eq!(answer, 42);
/// # }
/// ```
///
/// Patterns, preconditions and `else`:
///
/// ```
/// use std::future::ready;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let which = blitzen::select! {
///     Some(number) = ready(None::<u32>) => number,
///     1 = ready(1), if false => 1,
///     else => 0,
/// };
/// assert_eq!(which, 0);
/// # }
/// ```
///
/// A future that several calls poll by reference:
///
/// ```
/// use std::future::ready;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let work = async { 42 };
/// blitzen::pin!(work);
/// let mut ticks = 0;
/// let answer = loop {
///     blitzen::select! {
///         answer = &mut work => break answer,
///         _ = ready(()), if ticks < 3 => ticks += 1,
///     }
/// };
/// assert_eq!(answer, 42);
/// # }
/// ```
///
/// # Cancel safety
///
/// All futures but one are dropped before they are done. Use operations whose "Cancel
/// safety" section allows that, or pin a future and poll it by reference, as in the last
/// example.
///
/// A future that is polled by reference is *not* dropped when another branch completes, and
/// nobody polls it while the handler runs. If it holds a lock, or waits for one in a queue,
/// and the handler waits for the same lock, neither ever continues.
/// [`select_owned!`](crate::select_owned!) refuses such branches.
///
/// # Panics
///
/// Panics if all branches are disabled and there is no `else`.
#[macro_export]
macro_rules! select {
    ($($branches:tt)*) => {
        $crate::macros::support::select_expand! { [$crate] $($branches)* }
    };
}

/// Waits for several futures like [`select!`](crate::select!), and refuses branches that
/// borrow their future.
///
/// In `select!` a branch can be `&mut future`. When another branch completes first, only
/// the reference is dropped. The future keeps what it holds, and its place in the queue it
/// waits in, but nobody polls it until the handler is done. If the handler waits for the
/// same lock, neither continues. Here such a branch does not compile, so nothing of the
/// other futures is left when a handler runs.
///
/// Instead of borrowing a future:
///
/// * Move it into the branch. It is dropped before another handler runs: its locks are
///   released, and its places in queues are given up.
/// * If it must continue, spawn it and poll the handle by reference: the task runs whether
///   the handle is polled or not. The handle and similar futures are
///   [`Passive`](crate::future::Passive), and may be borrowed.
/// * If it must continue and cannot be spawned, let the handlers only return what
///   happened, and use [`join!`](crate::join!) for what they would wait for.
///
/// The check sees the type of the branch only. An `async` block that awaits a borrowed
/// future hides it, and so does a `Box` of one.
///
/// Syntax, order, fairness, cancel safety and panics are those of
/// [`select!`](crate::select!).
///
/// # Examples
///
/// ```
/// use std::future::{pending, ready};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let answer = blitzen::select_owned! {
///     number = ready(42) => number,
///     _ = pending::<()>() => unreachable!(),
/// };
/// assert_eq!(answer, 42);
/// # }
/// ```
///
/// A branch that borrows its future does not compile:
///
/// ```compile_fail
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let work = async { 1 };
/// blitzen::pin!(work);
/// blitzen::select_owned! {
///     _ = &mut work => {}
/// }
/// # }
/// ```
#[macro_export]
macro_rules! select_owned {
    ($($branches:tt)*) => {
        $crate::macros::support::select_owned_expand! { [$crate] $($branches)* }
    };
}
