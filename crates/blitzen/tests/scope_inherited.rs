//! Values that children of scopes inherit.

mod scope_common;

use std::sync::Arc;

use blitzen::scope::{Scope, Stopped, scope};
use blitzen::task;
use scope_common::on_both;

blitzen::inherited! {
    static TRACE: u64;
    static NAME: String
}

#[test]
fn children_of_scopes_inherit_and_other_tasks_do_not() {
    on_both(|| async {
        let done = TRACE.bind(1, async {
            scope(|s: Scope<Stopped>| async move {
                let plain = task::spawn(async { TRACE.get() });
                assert_eq!(plain.await.unwrap(), None);
                let child = s.spawn(async { Ok(TRACE.get()) });
                assert_eq!(child.await?, Some(1));
                // What counts is what was bound where the child was spawned.
                let bound = TRACE.bind(2, async { s.spawn(async { Ok(TRACE.get()) }).await });
                assert_eq!(bound.await?, Some(2));
                let deep = s.spawn(scope(|s| async move {
                    s.spawn(NAME.bind("ada".to_string(), async { Ok((TRACE.get(), NAME.get())) }))
                        .await
                }));
                assert_eq!(deep.await?, (Some(1), Some("ada".to_string())));
                Ok(TRACE.get())
            })
            .await
        });
        assert_eq!(done.await, Ok(Some(1)));
        assert_eq!(TRACE.get(), None);
    });
}

#[test]
fn a_binding_is_seen_by_destructors_and_leaves_with_a_panic() {
    struct Reader(std::sync::mpsc::Sender<Option<u64>>);
    impl Drop for Reader {
        fn drop(&mut self) {
            self.0.send(TRACE.get()).unwrap();
        }
    }
    on_both(|| async {
        let (sender, seen) = std::sync::mpsc::channel();
        let reader = Reader(sender.clone());
        let mut dropped = Box::pin(TRACE.bind(3, async move {
            let _reader = reader;
            std::future::pending::<()>().await
        }));
        assert!(scope_common::poll_once(&mut dropped).await.is_pending());
        drop(dropped);
        assert_eq!(seen.recv().unwrap(), Some(3));
        let panics = || TRACE.bind_sync(4, || panic!("inside"));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(TRACE.get(), None);
    });
}

#[test]
fn a_value_lives_as_long_as_somebody_can_see_it() {
    blitzen::inherited! {
        static SHARED: Arc<()>;
    }
    on_both(|| async {
        let value = Arc::new(());
        let done = SHARED.bind(
            value.clone(),
            scope(|s| async move {
                s.spawn(async { Ok::<_, Stopped>(SHARED.with(|v| v.map(Arc::strong_count))) })
                    .await
            }),
        );
        assert_eq!(done.await, Ok(Some(2)));
        while Arc::strong_count(&value) > 1 {
            task::yield_now().await;
        }
    });
}

#[test]
fn a_hundred_thousand_bindings_are_dropped_without_recursion() {
    fn bind(depth: usize) -> std::pin::Pin<Box<dyn Future<Output = Option<u64>> + Send>> {
        match depth {
            0 => Box::pin(async { TRACE.get() }),
            _ => Box::pin(TRACE.bind(depth as u64, async move {
                let next = async move { Ok(bind(depth - 1).await) };
                scope(|s| async move { s.spawn(next).await }).await.unwrap()
            })),
        }
    }
    scope_common::one_thread().block_on(async {
        assert_eq!(bind(20_000).await, Some(1));
    });
}
