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
//! O1. The three differ in how often the receiver is borrowed, or in being inherent
//!     methods. So method resolution has a fixed order, and none is ambiguous.

use std::marker::PhantomData;
use std::pin::Pin;

/// A future that holds nothing that others wait for, even while it is not polled.
///
/// Others do the work that it waits for: a spawned task, or the owner of the other
/// half of a channel. It holds no lock, and no place in a queue. A branch of
/// [`select_owned!`](crate::select_owned!) may borrow such a future: nothing waits
/// for it to be polled again when another branch completes first.
///
/// # Examples
///
/// ```
/// use std::future::Future;
/// use std::pin::Pin;
/// use std::task::{Context, Poll};
///
/// /// Ready once another thread has set the flag.
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
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// # let mut signal = Signal(Default::default());
/// blitzen::select_owned! {
///     () = &mut signal => {}
/// }
/// # }
/// ```
pub trait Passive {}

impl<T> Passive for std::future::Ready<T> {}
impl<T> Passive for std::future::Pending<T> {}

/// The task runs whether its handle is polled or not.
impl<T> Passive for blitzen_task::JoinHandle<T> {}

/// The value stays in the channel until it is received.
impl<T> Passive for blitzen_sync::channel::oneshot::Receiver<T> {}

/// The type of a branch's future.
#[derive(Debug)]
pub struct Branch<F>(PhantomData<F>);

impl<F> Branch<F> {
    /// Returns the branch of a future.
    pub fn of(_: &F) -> Self {
        Self(PhantomData)
    }
}

/// The future is dropped with the branch.
#[derive(Debug)]
pub struct Owned;

/// The future outlives the branch.
#[derive(Debug)]
pub struct Borrowed;

impl<F: Passive + ?Sized> Branch<&mut F> {
    /// Returns that the future counts as owned: it is borrowed, but passive.
    pub fn ownership(&self) -> Owned {
        Owned
    }
}

impl<F: Passive + ?Sized> Branch<Pin<&mut F>> {
    /// Returns that the future counts as owned: it is borrowed, but passive.
    pub fn ownership(&self) -> Owned {
        Owned
    }
}

/// The branches that borrow their future.
pub trait IsBorrowed {
    /// Returns that the future is borrowed.
    fn ownership(&self) -> Borrowed {
        Borrowed
    }
}

impl<F: ?Sized> IsBorrowed for Branch<&mut F> {}
impl<F: ?Sized> IsBorrowed for Branch<Pin<&mut F>> {}

/// All other branches.
pub trait IsOwned {
    /// Returns that the future is owned.
    fn ownership(&self) -> Owned {
        Owned
    }
}

impl<F> IsOwned for &Branch<F> {}

/// Implemented for [`Owned`] alone.
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
