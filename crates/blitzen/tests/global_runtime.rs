//! The runtime of the process, for code outside any other.

#[cfg(not(feature = "global"))]
use std::panic::catch_unwind;

#[test]
#[cfg(feature = "global")]
fn code_outside_any_runtime_uses_the_global_one() {
    use blitzen::runtime::{Handle, Runtime};
    let task = blitzen::spawn(async { Handle::current().id() });
    let id = blitzen::block_on(task).unwrap();
    assert_eq!(blitzen::block_on(async { Handle::current().id() }), id);
    let name = blitzen::block_on(async { Handle::current().name().map(str::to_owned) });
    assert_eq!(name.as_deref(), Some("global"));
    // Another runtime that was entered comes first.
    let runtime = Runtime::new().unwrap();
    let _inside = runtime.enter();
    let own = blitzen::block_on(async { blitzen::spawn(async { Handle::current().id() }).await });
    assert_eq!(own.unwrap(), runtime.handle().id());
    // And nothing else has changed.
    assert!(
        std::thread::spawn(|| Handle::try_current().is_err())
            .join()
            .unwrap()
    );
}

#[test]
#[cfg(not(feature = "global"))]
fn code_outside_any_runtime_is_told_what_to_do() {
    for refused in [
        catch_unwind(|| blitzen::block_on(async {})),
        catch_unwind(|| drop(blitzen::spawn(async {}))),
        catch_unwind(|| blitzen::scope::scope_blocking(|_| ())),
    ] {
        let text = refused.unwrap_err().downcast::<String>().unwrap();
        assert!(
            text.contains("enter a runtime with `Handle::enter`"),
            "{text}"
        );
        assert!(text.contains("feature `global`"), "{text}");
    }
}

#[test]
fn a_thread_that_runs_tasks_may_not_block() {
    let runtime = blitzen::runtime::Runtime::new().unwrap();
    let blocked = runtime.block_on(runtime.spawn(async { blitzen::block_on(async {}) }));
    assert!(blocked.unwrap_err().is_panic());
}
