//! Tokens that tell a tree of tasks to stop.
//!
//! A [`CancelToken`] can have children, which are cancelled together with it. Tasks
//! await [`CancelToken::cancelled`], or ask [`CancelToken::is_cancelled`].
//!
//! # Examples
//!
//! ```
//! use blitzen::sync::CancelToken;
//!
//! # futures::executor::block_on(async {
//! let server = CancelToken::new();
//! let connection = server.child_token();
//! server.cancel();
//! connection.cancelled().await;
//! # });
//! ```

//   token ── token's clones            one node
//     ├── child token
//     │     └── grandchild token       cancelled with its ancestors,
//     └── child token                  never the other way round
//
// C1. All nodes of a tree share the lock of its root. Parents, lists of children and
//     links are accessed under it only.
// C2. A node's semaphore has no permits, and is closed, under the tree's lock, when
//     the node is cancelled.
// C3. All nodes below a cancelled one are cancelled before the tree is unlocked. A
//     cancelled node gets no more children, and has no parent except one that is just
//     waking its waiters.
// C4. A node leaves its parent, and passes its children on to it, before it is freed;
//     so the parents and children that a node points to are alive.
//
// Children do not keep their parent alive, so a long chain of tokens whose handles
// were dropped is not a leak. They keep the root alive, for its lock.

use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use blitzen_util::list::{Linked, Links, List};
use blitzen_util::shim::cell::UnsafeCell;
use blitzen_util::shim::{Mutex, MutexGuard};
use blitzen_util::wait::{self, WaitKind};
use blitzen_util::wake_batch::{self, WakeBatch};

use crate::batch_semaphore::BatchSemaphore;
use crate::wait_queue::{Waiter, WaiterStatus};

/// A token that tells tasks to stop.
///
/// Clones are handles of the same token. A [child](Self::child_token) is cancelled
/// together with its parent; cancelling a child does not affect its parent.
///
/// # Examples
///
/// ```
/// use blitzen::sync::CancelToken;
///
/// # futures::executor::block_on(async {
/// let shutdown = CancelToken::new();
/// let request = shutdown.child_token();
/// assert_eq!(request.run_until_cancelled(async { 1 }).await, Some(1));
///
/// shutdown.cancel();
/// request.cancelled().await;
/// assert_eq!(request.run_until_cancelled(async { 1 }).await, None);
/// # });
/// ```
pub struct CancelToken {
    node: Arc<TokenNode>,
}

impl CancelToken {
    /// Creates a token without a parent.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::CancelToken;
    /// assert!(!CancelToken::new().is_cancelled());
    /// ```
    pub fn new() -> Self {
        Self {
            node: Arc::new(TokenNode::new(None, false)),
        }
    }

    /// Creates a token that is cancelled together with this one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::CancelToken;
    /// let parent = CancelToken::new();
    /// let (one, two) = (parent.child_token(), parent.child_token());
    /// one.cancel();
    /// assert!(!parent.is_cancelled() && !two.is_cancelled());
    /// parent.cancel();
    /// assert!(two.is_cancelled());
    /// ```
    pub fn child_token(&self) -> Self {
        if self.is_cancelled() {
            return Self {
                node: Arc::new(TokenNode::new(None, true)),
            };
        }
        let child = Arc::new(TokenNode::new(Some(TokenNode::root(&self.node)), false));
        let tree = self.node.lock();
        if self.is_cancelled() {
            drop(tree);
            child.semaphore.close(); // C3; no other thread has it yet
        } else {
            // SAFETY: C4, `child` leaves when it is dropped.
            unsafe { tree.attach(NonNull::from(&*self.node), NonNull::from(&*child)) };
            drop(tree);
        }
        Self { node: child }
    }

    /// Cancels this token, its children and their children.
    ///
    /// Does nothing if it was cancelled already.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::CancelToken;
    /// let token = CancelToken::new();
    /// token.cancel();
    /// assert!(token.is_cancelled());
    /// ```
    pub fn cancel(&self) {
        self.node.cancel();
    }

    /// Returns `true` if this token or one of its ancestors was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::CancelToken;
    /// let token = CancelToken::new();
    /// assert!(!token.is_cancelled());
    /// token.cancel();
    /// assert!(token.is_cancelled());
    /// ```
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.node.semaphore.is_closed()
    }

    /// Waits until the token is cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::CancelToken;
    /// # futures::executor::block_on(async {
    /// let token = CancelToken::new();
    /// std::thread::spawn({
    ///     let token = token.clone();
    ///     move || token.cancel()
    /// });
    /// token.cancelled().await;
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    #[inline]
    pub fn cancelled(&self) -> Cancelled<'_> {
        Cancelled(CancelledWait::new(&self.node))
    }

    /// Waits until the token is cancelled, with a future that owns the token.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::CancelToken;
    /// # futures::executor::block_on(async {
    /// let token = CancelToken::new();
    /// let cancelled = token.clone().cancelled_owned();
    /// token.cancel();
    /// cancelled.await;
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    #[inline]
    pub fn cancelled_owned(self) -> CancelledOwned {
        CancelledOwned(CancelledWait::new(self.node))
    }

    /// Returns a guard that cancels the token when it is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::CancelToken;
    /// let token = CancelToken::new();
    /// drop(token.clone().drop_guard());
    /// assert!(token.is_cancelled());
    /// ```
    pub fn drop_guard(self) -> DropGuard {
        DropGuard { token: Some(self) }
    }

    /// Returns a guard that borrows the token, and cancels it when it is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::CancelToken;
    /// let token = CancelToken::new();
    /// drop(token.drop_guard_ref());
    /// assert!(token.is_cancelled());
    /// ```
    pub fn drop_guard_ref(&self) -> DropGuardRef<'_> {
        DropGuardRef { token: Some(self) }
    }

    /// Runs `fut` to completion, or drops it when the token is cancelled.
    ///
    /// Returns `None` if it was dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::CancelToken;
    /// # futures::executor::block_on(async {
    /// let token = CancelToken::new();
    /// assert_eq!(token.run_until_cancelled(async { 5 }).await, Some(5));
    /// std::thread::spawn({
    ///     let token = token.clone();
    ///     move || token.cancel()
    /// });
    /// let never = std::future::pending::<()>();
    /// assert_eq!(token.run_until_cancelled(never).await, None);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe if `fut` is.
    pub async fn run_until_cancelled<F: Future>(&self, fut: F) -> Option<F::Output> {
        if self.is_cancelled() {
            return None;
        }
        let mut fut = pin!(fut);
        let mut cancelled = pin!(self.cancelled());
        std::future::poll_fn(|cx| match fut.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => cancelled.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// Runs `fut` as [`run_until_cancelled`](Self::run_until_cancelled) does, with
    /// a future that owns the token.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::CancelToken;
    /// # futures::executor::block_on(async {
    /// let token = CancelToken::new();
    /// let run = token.clone().run_until_cancelled_owned(async { 5 });
    /// token.cancel();
    /// assert_eq!(run.await, None);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe if `fut` is.
    pub async fn run_until_cancelled_owned<F: Future>(self, fut: F) -> Option<F::Output> {
        self.run_until_cancelled(fut).await
    }
}

impl Clone for CancelToken {
    fn clone(&self) -> Self {
        Self {
            node: self.node.clone(),
        }
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}

/// Clones of a token are equal, and nothing else is.
impl PartialEq for CancelToken {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
    }
}

impl Eq for CancelToken {}

impl Hash for CancelToken {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.node).hash(state);
    }
}

/// A guard that cancels its token when it is dropped, created by
/// [`CancelToken::drop_guard`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::CancelToken;
/// let token = CancelToken::new();
/// {
///     let _guard = token.clone().drop_guard();
/// }
/// assert!(token.is_cancelled());
/// ```
#[must_use = "the token is cancelled at once if this is not held"]
#[derive(Debug)]
pub struct DropGuard {
    /// `None` once disarmed.
    token: Option<CancelToken>,
}

impl DropGuard {
    /// Returns the token without cancelling it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::CancelToken;
    /// let token = CancelToken::new().drop_guard().disarm();
    /// assert!(!token.is_cancelled());
    /// ```
    #[track_caller]
    pub fn disarm(mut self) -> CancelToken {
        match self.token.take() {
            Some(token) => token,
            None => unreachable!("only `disarm`, which consumes the guard, empties it"),
        }
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        if let Some(token) = &self.token {
            token.cancel();
        }
    }
}

/// A guard that cancels the token it borrows when it is dropped, created by
/// [`CancelToken::drop_guard_ref`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::CancelToken;
/// let token = CancelToken::new();
/// {
///     let _guard = token.drop_guard_ref();
/// }
/// assert!(token.is_cancelled());
/// ```
#[must_use = "the token is cancelled at once if this is not held"]
#[derive(Debug)]
pub struct DropGuardRef<'a> {
    /// `None` once disarmed.
    token: Option<&'a CancelToken>,
}

impl<'a> DropGuardRef<'a> {
    /// Returns the token without cancelling it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::CancelToken;
    /// let token = CancelToken::new();
    /// token.drop_guard_ref().disarm();
    /// assert!(!token.is_cancelled());
    /// ```
    #[track_caller]
    pub fn disarm(mut self) -> &'a CancelToken {
        match self.token.take() {
            Some(token) => token,
            None => unreachable!("only `disarm`, which consumes the guard, empties it"),
        }
    }
}

impl Drop for DropGuardRef<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            token.cancel();
        }
    }
}

/// What [`Cancelled`] and [`CancelledOwned`] have in common.
struct CancelledWait<N: Deref<Target = TokenNode>> {
    node: N,
    waiter: Waiter,
}

impl<N: Deref<Target = TokenNode>> CancelledWait<N> {
    #[inline(always)]
    fn new(node: N) -> Self {
        Self {
            node,
            waiter: Waiter::new(),
        }
    }

    /// # Safety
    /// The waiter stays in place until this is dropped.
    #[inline]
    unsafe fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let semaphore = &self.node.semaphore;
        if semaphore.is_closed() {
            return Poll::Ready(());
        }
        // C2: ready only when closed, since there are no permits.
        // SAFETY: used with this semaphore only; `drop` abandons it.
        let poll = unsafe { semaphore.poll_acquire(&self.waiter, 1, 0, false, cx) };
        if poll.is_pending() {
            wait::pending_on(WaitKind::Cancelled, semaphore);
        }
        poll.map(|_closed| ())
    }
}

impl<N: Deref<Target = TokenNode>> Drop for CancelledWait<N> {
    #[inline]
    fn drop(&mut self) {
        if self.waiter.status() == WaiterStatus::Queued {
            // SAFETY: used with this semaphore only.
            unsafe { self.node.semaphore.abandon(&self.waiter, 1) };
        }
    }
}

/// The future of [`CancelToken::cancelled`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::{CancelToken, cancel::Cancelled};
/// # futures::executor::block_on(async {
/// let token = CancelToken::new();
/// let cancelled: Cancelled<'_> = token.cancelled();
/// token.cancel();
/// cancelled.await;
/// # });
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct Cancelled<'a>(CancelledWait<&'a TokenNode>);

impl Future for Cancelled<'_> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: pinned, and so in place until it is dropped.
        unsafe { self.0.poll(cx) }
    }
}

impl fmt::Debug for Cancelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").finish_non_exhaustive()
    }
}

/// The future of [`CancelToken::cancelled_owned`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::{CancelToken, cancel::CancelledOwned};
/// # futures::executor::block_on(async {
/// let token = CancelToken::new();
/// let cancelled: CancelledOwned = token.clone().cancelled_owned();
/// token.cancel();
/// cancelled.await;
/// # });
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct CancelledOwned(CancelledWait<Arc<TokenNode>>);

impl Future for CancelledOwned {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: pinned, and so in place until it is dropped.
        unsafe { self.0.poll(cx) }
    }
}

impl fmt::Debug for CancelledOwned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelledOwned").finish_non_exhaustive()
    }
}

struct TokenNode {
    semaphore: BatchSemaphore,
    /// `None` in a root, which uses its own `tree`.
    root: Option<Arc<TokenNode>>,
    tree: Mutex<()>,
    tree_links: UnsafeCell<TreeLinks>,
    siblings: Links<TokenNode>,
}

struct TreeLinks {
    parent: Option<NonNull<TokenNode>>,
    children: List<TokenNode>,
}

// SAFETY: what is not `Send` by itself, `tree_links` and `siblings`, is touched under the
// tree's lock only (C1).
unsafe impl Send for TokenNode {}
// SAFETY: as above.
unsafe impl Sync for TokenNode {}

// SAFETY: the field's address, without a reference to the node.
unsafe impl Linked for TokenNode {
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: in bounds of a live node.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).siblings) }
    }
}

impl TokenNode {
    fn new(root: Option<Arc<TokenNode>>, cancelled: bool) -> Self {
        Self {
            semaphore: match cancelled {
                true => BatchSemaphore::new_closed(),
                false => BatchSemaphore::new(0),
            },
            root,
            tree: Mutex::new(()),
            tree_links: UnsafeCell::new(TreeLinks {
                parent: None,
                children: List::new(),
            }),
            siblings: Links::new(),
        }
    }

    fn root(this: &Arc<Self>) -> Arc<Self> {
        this.root.as_ref().unwrap_or(this).clone()
    }

    fn lock(&self) -> LockedTree<'_> {
        let root = self.root.as_deref().unwrap_or(self);
        LockedTree {
            _lock: root.tree.lock(),
        }
    }

    fn cancel(&self) {
        // Also if it is cancelled already: another thread may still be waking its
        // waiters, and all of them are woken when this returns.
        wake_batch::in_rounds(|batch| self.lock().cancel(self, batch));
    }
}

impl Drop for TokenNode {
    fn drop(&mut self) {
        // A root outlives all others, and so has neither parent nor children.
        if self.root.is_some() {
            self.lock().unlink(self);
        }
    }
}

/// A tree whose lock is held.
struct LockedTree<'a> {
    _lock: MutexGuard<'a, ()>,
}

impl LockedTree<'_> {
    /// # Safety
    /// `node` belongs to this tree and is alive. `visit` does not access the
    /// links of the same node in another way.
    unsafe fn with_links<R>(
        &self,
        node: NonNull<TokenNode>,
        visit: impl FnOnce(&mut TreeLinks) -> R,
    ) -> R {
        // SAFETY: alive by the contract of this function; C1, this is the lock.
        unsafe {
            node.as_ref()
                .tree_links
                .with_mut(|links| visit(&mut *links))
        }
    }

    /// # Safety
    /// Both belong to this tree and are alive, and `child` has no parent and
    /// keeps C4.
    unsafe fn attach(&self, parent: NonNull<TokenNode>, child: NonNull<TokenNode>) {
        // SAFETY: the caller upholds the same contract; C4 for `push_back`.
        unsafe {
            self.with_links(child, |links| links.parent = Some(parent));
            self.with_links(parent, |links| links.children.push_back(child));
        }
    }

    /// Moves the children of one node to another, or leaves them without a parent.
    ///
    /// # Safety
    /// Both belong to this tree and are alive.
    unsafe fn move_children(&self, from: NonNull<TokenNode>, to: Option<NonNull<TokenNode>>) {
        // SAFETY: the caller upholds the same contract, and C4 for the children.
        unsafe {
            while let Some(child) = self.with_links(from, |links| links.children.pop_front()) {
                match to {
                    Some(parent) => self.attach(parent, child),
                    None => self.with_links(child, |links| links.parent = None),
                }
            }
        }
    }

    /// Takes a node out of its parent's list.
    ///
    /// # Safety
    /// It belongs to this tree and is alive.
    unsafe fn detach(&self, node: NonNull<TokenNode>) -> Option<NonNull<TokenNode>> {
        // SAFETY: the caller upholds the same contract, and C4 for the parent.
        unsafe {
            let parent = self.with_links(node, |links| links.parent.take())?;
            self.with_links(parent, |links| links.children.remove(node));
            Some(parent)
        }
    }

    /// Cancels a node and all below it. Returns true if the batch is full and
    /// waiters are left.
    fn cancel(&self, node: &TokenNode, batch: &mut WakeBatch) -> bool {
        let semaphore = &node.semaphore;
        let node = NonNull::from(node);
        // SAFETY: the caller's reference keeps `node` alive, C4 all others.
        unsafe {
            if !semaphore.is_closed() {
                self.detach(node);
                self.refuse_below(node); // C3: before the first waker runs
            }
            if semaphore.close_round(batch) {
                return true;
            }
            // A child that has no waiters left leaves, so the next round goes on
            // where this one stopped.
            while let Some(child) = self.with_links(node, |links| links.children.front()) {
                if child.as_ref().semaphore.close_round(batch) {
                    return true;
                }
                self.detach(child);
            }
        }
        false
    }

    /// Closes the semaphores of all nodes below `node`, and makes all of them its
    /// own children.
    ///
    /// # Safety
    /// `node` belongs to this tree and is alive.
    unsafe fn refuse_below(&self, node: NonNull<TokenNode>) {
        // SAFETY: the caller upholds the same contract; C4 for all others.
        unsafe {
            let mut cursor = self.with_links(node, |links| links.children.front());
            while let Some(child) = cursor {
                child.as_ref().semaphore.refuse();
                self.move_children(child, Some(node)); // behind it, so they are next
                cursor = self.with_links(node, |links| links.children.after(child));
            }
        }
    }

    /// Removes a node that is being dropped from the tree (C4).
    fn unlink(&self, node: &TokenNode) {
        let node = NonNull::from(node);
        // SAFETY: `node` is being dropped and so still alive, C4 all others.
        unsafe {
            let parent = self.detach(node);
            self.move_children(node, parent);
        }
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::batch_semaphore::model::poll_once;
    use blitzen_util::shim::thread;
    use loom::future::block_on;

    #[test]
    fn a_child_made_while_its_parent_is_cancelled_is_cancelled() {
        loom::model(|| {
            let parent = CancelToken::new();
            let canceller = thread::spawn({
                let parent = parent.clone();
                move || parent.cancel()
            });
            let child = parent.child_token();
            block_on(child.cancelled()); // or loom reports a deadlock
            canceller.join().unwrap();
            assert!(child.is_cancelled());
        });
    }

    #[test]
    fn a_grandchild_is_cancelled_while_its_parent_is_dropped() {
        loom::model(|| {
            let root = CancelToken::new();
            let child = root.child_token();
            let grandchild = child.child_token();
            let canceller = thread::spawn(move || root.cancel());
            let dropper = thread::spawn(move || drop(child));
            block_on(grandchild.cancelled()); // or loom reports a deadlock
            canceller.join().unwrap();
            dropper.join().unwrap();
        });
    }

    #[test]
    fn whoever_cancels_returns_when_all_below_are_cancelled() {
        loom::model(|| {
            let root = CancelToken::new();
            let child = root.child_token();
            let other = thread::spawn({
                let (root, child) = (root.clone(), child.clone());
                move || {
                    root.cancel();
                    assert!(child.is_cancelled());
                }
            });
            root.cancel();
            assert!(child.is_cancelled());
            other.join().unwrap();
        });
    }

    #[test]
    fn a_dropped_wait_does_not_block_the_cancellation() {
        loom::model(|| {
            let token = CancelToken::new();
            let canceller = thread::spawn({
                let token = token.clone();
                move || token.cancel()
            });
            let quitter = thread::spawn({
                let token = token.clone();
                move || {
                    let _ = poll_once(Box::pin(token.cancelled()).as_mut());
                }
            });
            block_on(token.cancelled_owned()); // or loom reports a deadlock
            canceller.join().unwrap();
            quitter.join().unwrap();
        });
    }
}
