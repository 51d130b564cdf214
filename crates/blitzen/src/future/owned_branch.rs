//! Whether a branch of `select_owned!` owns its future.
//!
//! ```text
//! (&Branch::of(&future)).ownership()
//!      │ the compiler takes the first that fits:
//!      ├ Branch<&mut F>, Branch<Pin<&mut F>> with F: Passive   → Owned
//!      ├ IsBorrowed for Branch<&mut F>, Branch<Pin<&mut F>>    → Borrowed
//!      └ IsOwned for &Branch<F>                                → Owned
//! ```
//!
//! O1. The three differ in how often the receiver is borrowed, or in being a
//!     method of the type itself, so that at most one is the first.

use std::marker::PhantomData;
use std::pin::Pin;

/// A future that keeps nothing from anybody while nobody polls it.
///
/// What it waits for is done by somebody else: a spawned task, whoever holds
/// the other half of a channel. It holds no lock, and no place in a queue that
/// others stand in. Such a future may be borrowed by a branch of
/// [`select_owned!`](crate::select_owned!): when the branch loses, nothing
/// waits for the future to be polled again.
///
/// ```
/// use std::future::Future;
/// use std::pin::Pin;
/// use std::task::{Context, Poll};
///
/// /// Ready once another thread has said so.
/// struct Signal(std::sync::Arc<std::sync::atomic::AtomicBool>);
///
/// impl Future for Signal {
///     type Output = ();
///     # fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> { Poll::Ready(()) }
///     // …
/// }
///
/// impl blitzen::future::Passive for Signal {}
///
/// # blitzen_util::block_on::block_on(async {
/// # let mut signal = Signal(Default::default());
/// blitzen::select_owned! {
///     () = &mut signal => {}
/// }
/// # })
/// ```
pub trait Passive {}

impl<T> Passive for std::future::Ready<T> {}
impl<T> Passive for std::future::Pending<T> {}

/// The task runs, whoever waits for it.
impl<T> Passive for blitzen_task::JoinHandle<T> {}

/// The value stays in the channel until it is received.
impl<T> Passive for blitzen_sync::channel::oneshot::Receiver<T> {}

/// The type of a branch.
#[derive(Debug)]
pub struct Branch<F>(PhantomData<F>);

impl<F> Branch<F> {
    /// The branch of this future.
    pub fn of(_: &F) -> Self {
        Self(PhantomData)
    }
}

/// Nothing of the branch is left when it has lost.
#[derive(Debug)]
pub struct Owned;

/// The future outlives the branch.
#[derive(Debug)]
pub struct Borrowed;

impl<F: Passive + ?Sized> Branch<&mut F> {
    /// Borrowed, but harmless.
    pub fn ownership(&self) -> Owned {
        Owned
    }
}

impl<F: Passive + ?Sized> Branch<Pin<&mut F>> {
    /// Borrowed, but harmless.
    pub fn ownership(&self) -> Owned {
        Owned
    }
}

/// Says that a branch borrows.
pub trait IsBorrowed {
    /// It does.
    fn ownership(&self) -> Borrowed {
        Borrowed
    }
}

impl<F: ?Sized> IsBorrowed for Branch<&mut F> {}
impl<F: ?Sized> IsBorrowed for Branch<Pin<&mut F>> {}

/// Says that a branch owns.
pub trait IsOwned {
    /// It does.
    fn ownership(&self) -> Owned {
        Owned
    }
}

impl<F> IsOwned for &Branch<F> {}

/// Implemented by [`Owned`] alone.
#[diagnostic::on_unimplemented(
    message = "a branch of `select_owned!` borrows its future",
    label = "in this call",
    note = "a borrowed future is not dropped when its branch loses, and nobody polls it while \
            another handler runs: a lock it holds or waits for is stuck that long",
    note = "move the future into the branch; or spawn it and wait for `&mut` of its handle; or \
            use `select!` if no handler can wait for what the future holds"
)]
pub trait OwnedBranch {}

impl OwnedBranch for Owned {}

/// Compiles if the branch owns its future.
pub fn require<A: OwnedBranch>(_: A) {}
