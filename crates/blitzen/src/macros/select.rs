/// Waits for several futures, and goes on with the one that is ready first.
///
/// ```
/// # blitzen_util::block_on::block_on(async {
/// use std::future::{pending, ready};
///
/// let answer = blitzen::select! {
///     number = ready(42) => number,
///     _ = pending::<()>() => unreachable!(),
/// };
/// assert_eq!(answer, 42);
/// # })
/// ```
///
/// # Form
///
/// ```text
/// select! {
///     biased;                                             (may be left out)
///     <pattern> = <future> => <handler>,
///     <pattern> = <future>, if <precondition> => <handler>,
///     else => <handler>,                                  (may be left out)
/// }
/// ```
///
/// with up to 64 branches. A handler is an expression; after one that is a
/// block the comma may be left out. The call has the value of the handler that
/// ran, so all of them have the same type. It stands in an `async` function or
/// block.
///
/// # What happens
///
/// 1. The preconditions are evaluated. A branch whose precondition is false is
///    disabled.
/// 2. The future expressions are evaluated, those of disabled branches too, but
///    the futures of disabled branches are never polled.
/// 3. The futures are waited for, all on the calling task: concurrently, not in
///    parallel.
/// 4. When one is ready, its output is held against the pattern. If it does not
///    match, the branch is disabled and the wait goes on.
/// 5. If it matches, **every future is dropped** and then the handler runs. It
///    may use whatever the futures had borrowed.
/// 6. If all branches are disabled, the handler of `else` runs. Without an
///    `else` that is a panic.
///
/// ```
/// # blitzen_util::block_on::block_on(async {
/// use std::future::ready;
///
/// let which = blitzen::select! {
///     Some(number) = ready(None::<u32>) => number,
///     1 = ready(1), if false => 1,
///     else => 0,
/// };
/// assert_eq!(which, 0);
/// # })
/// ```
///
/// # Fairness
///
/// Every poll starts with a branch chosen at random, so that a branch that is
/// always ready cannot keep the others waiting. With `biased;` the futures are
/// polled in the order in which they are written, which costs less and lets a
/// branch go first (a shutdown signal, for instance); put the busy ones last.
///
/// The call spends nothing of the task's budget, but it does not poll when none
/// is left: a loop around it gives other tasks their turn.
///
/// # Cancel safety
///
/// The futures that are not ready first are dropped, wherever they were. Losing
/// should cost nothing: use operations whose "Cancel safety" says so, or keep
/// the future alive across calls by pinning it and waiting for a reference.
///
/// ```
/// # blitzen_util::block_on::block_on(async {
/// use std::future::ready;
///
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
/// # })
/// ```
///
/// A future waited for by reference is *not* dropped when it loses, and nobody
/// polls it while a handler runs. If it holds a lock, or stands in a queue for
/// one, that the handler waits for, both wait for ever. Where that could be,
/// use [`select_owned!`](crate::select_owned!), which refuses such branches.
///
/// # Panics
/// If every branch is disabled and there is no `else`.
#[macro_export]
macro_rules! select {
    ($($branches:tt)*) => {
        $crate::macros::support::select_expand! { [$crate] $($branches)* }
    };
}

/// [`select!`](crate::select!) whose branches must own their futures, so that
/// nothing of the losers is left when the winner's handler runs.
///
/// ```
/// # blitzen_util::block_on::block_on(async {
/// use std::future::{pending, ready};
///
/// let answer = blitzen::select_owned! {
///     number = ready(42) => number,
///     _ = pending::<()>() => unreachable!(),
/// };
/// assert_eq!(answer, 42);
/// # })
/// ```
///
/// # Why
///
/// In `select!` a branch can be `&mut future`. When it loses, only the
/// reference is dropped. The future lives on, with all it holds and with its
/// place in the queue of whatever it waits for, and nobody polls it until the
/// handler is done:
///
/// ```
/// # blitzen_util::block_on::block_on(async {
/// # let lock = blitzen_sync::Mutex::new(()); let timer = std::future::ready(());
/// let work = async { drop(lock.lock().await) };
/// blitzen::pin!(work);
/// blitzen::select! {
///     _ = &mut work => {}
///     // `work` may be the next in line for the lock. It is handed the lock,
///     // but does not run; this waits for the lock and never gets it.
///     _ = timer => drop(lock.lock().await),
/// }
/// # })
/// ```
///
/// Here such a branch does not compile:
///
/// ```compile_fail
/// # blitzen_util::block_on::block_on(async {
/// let work = async { 1 };
/// blitzen::pin!(work);
/// blitzen::select_owned! {
///     _ = &mut work => {}
/// }
/// # })
/// ```
///
/// # What to write instead
///
/// * Move the future into the branch. If it loses, it is dropped before the
///   handler runs: its locks are released, its places in queues given up.
/// * If it must survive losing, spawn it and wait for its handle by reference:
///   the task runs on, whoever polls. Futures like the handle are
///   [`Passive`](crate::future::Passive), and may be borrowed.
/// * If it must survive, and cannot be spawned, let the handlers only say what
///   happened, and use [`join!`](crate::join!) for the work they would wait
///   for.
///
/// The check sees the type of the branch. An `async` block that awaits a
/// borrowed future inside hides it, and so does a `Box` of one.
///
/// Everything else (form, order, fairness, cancel safety, panics) is as in
/// [`select!`](crate::select!).
#[macro_export]
macro_rules! select_owned {
    ($($branches:tt)*) => {
        $crate::macros::support::select_owned_expand! { [$crate] $($branches)* }
    };
}
