//! What `task_local!` promises.

#![deny(warnings)]
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use blitzen_util::block_on::block_on;

blitzen::task_local! {
    /// With a doc comment and a visibility.
    pub static NUMBER: u32;
    static TEXT: String;
    static CELL: Cell<u32>
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_value_is_there_while_the_future_runs_and_only_then() {
    assert!(NUMBER.try_get().is_err());
    let mut turns = 0;
    let mut future = pin!(NUMBER.scope(
        1,
        poll_fn(|_| {
            assert_eq!(NUMBER.get(), 1);
            turns += 1;
            if turns == 2 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
    ));
    assert!(poll_once(future.as_mut()).is_pending());
    assert!(
        NUMBER.try_get().is_err(),
        "between polls it is in the future"
    );
    assert!(poll_once(future.as_mut()).is_ready());
    assert_eq!(future.take_value(), Some(1));
}

#[test]
fn scopes_nest_and_the_outer_value_comes_back() {
    block_on(NUMBER.scope(1, async {
        let inner = NUMBER.scope(2, async {
            assert_eq!(NUMBER.sync_scope(3, || NUMBER.get()), 3);
            NUMBER.get()
        });
        assert_eq!(inner.await, 2);
        assert_eq!(NUMBER.get(), 1);
        TEXT.scope("text".into(), async {
            assert_eq!((NUMBER.get(), TEXT.get()), (1, "text".into()));
        })
        .await;
    }));
}

#[test]
fn a_future_is_dropped_with_its_value_set() {
    struct Reads(Rc<RefCell<Vec<u32>>>);
    impl Drop for Reads {
        fn drop(&mut self) {
            self.0.borrow_mut().push(NUMBER.get());
        }
    }
    let seen = Rc::new(RefCell::new(Vec::new()));
    let waits = |reads| async move {
        let _reads: Reads = reads;
        pending::<()>().await
    };
    // Never polled, in the middle, at its end.
    drop(NUMBER.scope(1, waits(Reads(seen.clone()))));
    {
        let mut future = pin!(NUMBER.scope(2, waits(Reads(seen.clone()))));
        assert!(poll_once(future.as_mut()).is_pending());
    }
    let reads = Reads(seen.clone());
    let captured = poll_fn(move |_| {
        let _ = &reads;
        Poll::Ready(())
    });
    let mut future = pin!(NUMBER.scope(3, captured));
    assert!(poll_once(future.as_mut()).is_ready());
    assert_eq!(
        *seen.borrow(),
        [1, 2, 3],
        "the last one before its scope is gone"
    );
}

#[test]
fn a_panic_leaves_the_outer_value_in_place() {
    NUMBER.sync_scope(1, || {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            block_on(NUMBER.scope(2, async { panic!("on purpose") }))
        }));
        assert!(outcome.is_err());
        assert_eq!(NUMBER.get(), 1);
        let outcome = catch_unwind(|| NUMBER.sync_scope(3, || panic!("on purpose")));
        assert!(outcome.is_err());
        assert_eq!(NUMBER.get(), 1);
    });
    assert!(NUMBER.try_get().is_err());
}

#[test]
fn a_taken_value_is_gone_and_the_future_runs_on() {
    let mut future = pin!(TEXT.scope("text".into(), async { TEXT.try_get().is_err() }));
    assert_eq!(future.as_mut().take_value(), Some("text".to_string()));
    assert_eq!(future.as_mut().take_value(), None);
    assert_eq!(poll_once(future), Poll::Ready(true));
}

#[test]
fn a_scope_inside_with_is_refused() {
    let outcome = catch_unwind(|| {
        NUMBER.sync_scope(1, || NUMBER.with(|_| NUMBER.sync_scope(2, || {})));
    });
    let payload = outcome.unwrap_err();
    let text = payload.downcast_ref::<&str>().unwrap();
    assert!(text.contains("borrowed"), "{text}");
    // Reading is not.
    NUMBER.sync_scope(1, || NUMBER.with(|one| assert_eq!(*one, NUMBER.get())));
}

#[test]
fn values_can_change_through_a_cell() {
    CELL.sync_scope(Cell::new(1), || {
        CELL.with(|cell| cell.set(2));
        assert_eq!(CELL.with(Cell::get), 2);
    });
}

#[test]
fn a_missing_value_is_an_error_or_a_panic_that_says_so() {
    let error = NUMBER.try_with(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "task-local value not set");
    let payload = catch_unwind(|| NUMBER.get()).unwrap_err();
    assert_eq!(
        *payload.downcast_ref::<&str>().unwrap(),
        "cannot access a task-local storage value without setting it first"
    );
}

#[test]
fn a_finished_future_panics_when_polled() {
    let mut future = pin!(NUMBER.scope(1, async {}));
    assert!(poll_once(future.as_mut()).is_ready());
    let outcome = catch_unwind(AssertUnwindSafe(|| poll_once(future.as_mut())));
    let payload = outcome.unwrap_err();
    assert_eq!(
        *payload.downcast_ref::<&str>().unwrap(),
        "`TaskLocalFuture` polled after completion"
    );
    assert!(NUMBER.try_get().is_err());
}

#[test]
fn a_scope_is_send_and_sync_as_its_parts_are_and_never_unpin() {
    type Boxed<T> = Pin<Box<T>>;
    /// What a type is, asked of the value: the inherent method wins if its bound
    /// holds.
    macro_rules! is {
        ($trait:ident, $key:ident, $value:expr, $future:ty) => {{
            struct Probe<T>(std::marker::PhantomData<T>);
            #[allow(dead_code)]
            trait Otherwise {
                fn holds(&self) -> bool {
                    false
                }
            }
            impl<T> Otherwise for Probe<T> {}
            #[allow(dead_code)]
            impl<T: $trait> Probe<T> {
                fn holds(&self) -> bool {
                    true
                }
            }
            fn probe<T>(_: &T) -> Probe<T> {
                Probe(std::marker::PhantomData)
            }
            let future: $future = Box::pin(std::future::ready(()));
            probe(&$key.scope($value, future)).holds()
        }};
    }
    type Any = Boxed<dyn Future<Output = ()>>;
    type SendOnly = Boxed<dyn Future<Output = ()> + Send>;
    type Both = Boxed<dyn Future<Output = ()> + Send + Sync>;
    assert!(!is!(Send, NUMBER, 1, Any) && !is!(Sync, NUMBER, 1, Any));
    assert!(is!(Send, NUMBER, 1, SendOnly) && !is!(Sync, NUMBER, 1, SendOnly));
    assert!(is!(Send, NUMBER, 1, Both) && is!(Sync, NUMBER, 1, Both));
    assert!(is!(Send, CELL, Cell::new(1), Both) && !is!(Sync, CELL, Cell::new(1), Both));
    assert!(!is!(Unpin, NUMBER, 1, Both));
}

#[blitzen::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_goes_where_its_task_goes_and_not_to_tasks_it_spawns() {
    let tasks = (0..100).map(|number| {
        blitzen::spawn(NUMBER.scope(number, async move {
            for _ in 0..100 {
                assert_eq!(NUMBER.get(), number);
                blitzen::task::yield_now().await;
            }
            let child = blitzen::spawn(async { NUMBER.try_get() });
            assert!(child.await.unwrap().is_err());
        }))
    });
    for joined in blitzen::future::join_all(tasks).await {
        joined.unwrap();
    }
}
