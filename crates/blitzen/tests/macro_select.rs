//! What `select!` promises. The file denies warnings and forbids unsafe code, as
//! a caller's crate may.

#![deny(warnings)]
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use blitzen::select;
use blitzen_util::block_on::block_on;
use blitzen_util::coop;

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Notes its name when dropped.
struct Noted<'a>(&'static str, &'a RefCell<Vec<&'static str>>);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

#[test]
fn handlers_may_be_blocks_or_expressions_with_or_without_a_comma() {
    block_on(async {
        let a = select! { x = ready(1) => x };
        let b = select! { x = ready(1) => x, };
        let c = select! { x = ready(1) => { x } };
        let d = select! { x = ready(1) => { x }, };
        let e = select! {
            _ = pending::<()>() => { 0 }
            x = ready(1) => if x == 1 { x } else { 0 },
            else => 0
        };
        assert_eq!([a, b, c, d, e], [1; 5]);
    });
}

#[test]
fn commas_in_generic_arguments_and_closures_do_not_end_a_handler() {
    fn first<A, B>(a: A, _: B) -> A {
        a
    }
    block_on(async {
        let sum = select! {
            x = ready(first::<u32, u8>(1, 2)), if first::<bool, u8>(true, 0) => first::<u32, (u8, u8)>(x, (0, 0)),
            x = pending::<u32>() => x,
        };
        assert_eq!(sum, 1);
        let sum = select! {
            x = ready(1u32) => std::convert::identity(|a, b| a + b)(x, 1),
            x = pending::<u32>() => x,
        };
        assert_eq!(sum, 2);
        let add = select! {
            _ = ready(()) => |a: u32, b: u32| -> u32 { a + b },
            _ = pending::<()>() => unreachable!(),
        };
        assert_eq!(add(1, 2), 3);
        let less = select! {
            x = ready(1) => x < 2,
            x = pending::<i32>() => x << 1 > 2 || x >= 3,
        };
        assert!(less);
        let map = select! {
            _ = ready(()) => <Vec<(u8, u8)> as IntoIterator>::into_iter(vec![(1, 2)]).collect::<std::collections::HashMap<u8, u8>>(),
            _ = pending::<()>() => std::collections::HashMap::<u8, u8>::new(),
        };
        assert_eq!(map[&1], 2);
        let cast = select! {
            x = ready(1u8) => x as u32 + 1,
            x = pending::<u32>() => x,
        };
        assert_eq!(cast, 2);
    });
}

#[test]
fn a_comparison_before_a_comma_is_not_an_open_bracket() {
    block_on(async {
        let (low, high) = (1, 2);
        let less = select! {
            _ = ready(()), if low < high => low < high,
            _ = ready(()), if low > high => low > high,
        };
        assert!(less);
    });
}

#[test]
fn patterns_may_be_anything_a_match_allows() {
    #[derive(Clone)]
    struct Pair {
        left: u32,
        right: String,
    }
    const ONE: u32 = 1;
    block_on(async {
        let text = || "text".to_string();
        select! {
            Some(mut s) = ready(Some(text())) => { s.push('!'); assert_eq!(s, "text!"); }
            else => unreachable!(),
        }
        select! {
            Some(ref s) = ready(Some(text())) => assert_eq!(s, "text"),
            else => unreachable!(),
        }
        select! {
            Some(ref mut s) = ready(Some(text())) => { s.push('!'); assert_eq!(s, "text!"); }
            else => unreachable!(),
        }
        select! {
            Some(&x) = ready(Some(&1)) => assert_eq!(x, 1),
            else => unreachable!(),
        }
        select! {
            Pair { left: 1..=5, right } = ready(Pair { left: 3, right: text() }) => assert_eq!(right, "text"),
            else => unreachable!(),
        }
        select! {
            Ok(x) | Err(x) = ready(Ok::<u32, u32>(1)) => assert_eq!(x, 1),
            else => unreachable!(),
        }
        select! {
            ONE = ready(2) => unreachable!(),
            whole @ Some(_) = ready(Some(1)) => assert_eq!(whole, Some(1)),
            else => unreachable!(),
        }
        select! {
            1..=3 = ready(2) => {}
            else => unreachable!(),
        }
        select! {
            [first, .., last] = ready([1, 2, 3]) => assert_eq!((first, last), (1, 3)),
        }
        select! {
            Some((a, Some(b))) = ready(Some((text(), Some(text())))) => assert_eq!(a, b),
            else => unreachable!(),
        }
    });
}

#[test]
fn an_output_that_does_not_match_disables_its_branch_and_is_dropped() {
    let notes = RefCell::new(Vec::new());
    block_on(async {
        let mut polls = 0;
        let refused = poll_fn(|_| {
            polls += 1;
            Poll::Ready(Err::<(), _>(Noted("output", &notes)))
        });
        let mut turns = 0;
        let later = poll_fn(|cx| {
            turns += 1;
            cx.waker().wake_by_ref();
            if turns == 3 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        select! {
            biased;
            Ok(()) = refused => unreachable!(),
            () = later => assert_eq!(*notes.borrow(), ["output"]),
        }
        assert_eq!(polls, 1, "a disabled branch is not polled again");
    });
}

#[test]
fn else_runs_when_nothing_is_left() {
    block_on(async {
        let which = select! {
            Some(_) = ready(None::<u32>) => "some",
            1 = ready(2) => "one",
            _ = pending::<()>(), if false => "disabled",
            else => "else",
        };
        assert_eq!(which, "else");
        assert_eq!(select! { else => 1 }, 1);
        assert_eq!(select! { biased; else => { 1 } }, 1);
    });
}

#[test]
fn without_else_nothing_left_is_a_panic_at_the_call() {
    thread_local!(static FILE: RefCell<String> = const { RefCell::new(String::new()) });
    std::panic::set_hook(Box::new(|info| {
        let file = info.location().map_or("", |location| location.file());
        FILE.set(file.to_string());
    }));
    let outcome = catch_unwind(|| {
        block_on(async {
            select! { Some(()) = ready(None) => {} }
        })
    });
    let _ = std::panic::take_hook();
    let payload = outcome.unwrap_err();
    assert_eq!(
        *payload.downcast_ref::<&str>().unwrap(),
        "all branches are disabled and there is no else branch"
    );
    assert_eq!(FILE.take(), file!());
}

#[test]
fn preconditions_come_first_and_disabled_futures_are_made_but_not_polled() {
    let order = RefCell::new(Vec::new());
    let note = |what| order.borrow_mut().push(what);
    block_on(async {
        let make = |what| {
            note(what);
            async move { note("polled") }
        };
        select! {
            biased;
            _ = make("future 1"), if { note("condition 1"); false } => unreachable!(),
            _ = make("future 2"), if { note("condition 2"); true } => note("handler 2"),
        }
    });
    let expected = [
        "condition 1",
        "condition 2",
        "future 1",
        "future 2",
        "polled",
        "handler 2",
    ];
    assert_eq!(*order.borrow(), expected);
}

#[test]
fn every_future_is_dropped_before_the_handler() {
    let notes = RefCell::new(Vec::new());
    block_on(async {
        let hold = |name| {
            let noted = Noted(name, &notes);
            async move {
                let _noted = noted;
                pending::<()>().await
            }
        };
        let win = async {
            let _noted = Noted("winner", &notes);
        };
        select! {
            _ = hold("loser 1") => {}
            _ = win => notes.borrow_mut().push("handler"),
            _ = hold("loser 2") => {}
        }
    });
    let notes = notes.borrow();
    assert_eq!(notes.last(), Some(&"handler"));
    assert_eq!(notes.len(), 4);
}

#[test]
fn a_handler_may_use_what_the_futures_had_borrowed() {
    async fn borrow(_: &mut u32) {}
    block_on(async {
        let mut value = 1;
        select! {
            _ = borrow(&mut value) => value += 1,
            _ = pending::<()>() => value += 1,
            else => value += 1,
        }
        assert_eq!(value, 2);
    });
}

#[test]
fn control_flow_in_a_call_is_that_of_the_function_around_it() {
    async fn early(fail: bool) -> Result<u32, String> {
        let make = |fail| match fail {
            true => Err("no future".to_string()),
            false => Ok(ready(1)),
        };
        let mut rounds = 0;
        loop {
            select! {
                x = make(fail)? => {
                    rounds += x;
                    if rounds < 3 {
                        continue;
                    }
                    break;
                }
            }
        }
        select! {
            x = ready(async { 4 }.await), if rounds == 3 => return Ok(x + rounds),
            else => {}
        }
        Err("the handler did not return".to_string())
    }
    assert_eq!(block_on(early(false)), Ok(7));
    assert_eq!(block_on(early(true)), Err("no future".to_string()));
}

#[test]
fn biased_goes_from_the_top_and_otherwise_each_is_first_at_times() {
    block_on(async {
        for _ in 0..100 {
            let first = select! {
                biased;
                x = ready(1) => x,
                x = ready(2) => x,
                x = ready(3) => x,
            };
            assert_eq!(first, 1);
        }
        let mut wins = [0; 3];
        for _ in 0..3000 {
            let winner: usize = select! {
                x = ready(0) => x,
                x = ready(1) => x,
                x = ready(2) => x,
            };
            wins[winner] += 1;
        }
        assert!(wins.iter().all(|&n| n > 850), "{wins:?}");
    });
}

#[test]
fn a_seed_determines_the_order() {
    use blitzen_util::rng::{Rng, replace_thread_rng};
    let draw = |seed| {
        let before = replace_thread_rng(Some(Rng::new(seed)));
        let drawn: Vec<u32> = (0..32)
            .map(|_| {
                block_on(async {
                    select! {
                        x = ready(0) => x,
                        x = ready(1) => x,
                        x = ready(2) => x,
                        x = ready(3) => x,
                    }
                })
            })
            .collect();
        replace_thread_rng(before);
        drawn
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn the_seed_of_a_runtime_determines_the_order_on_each_of_its_threads() {
    use blitzen::runtime::Builder;
    async fn draw() -> Vec<u32> {
        let mut drawn = Vec::new();
        for _ in 0..32 {
            drawn.push(select! {
                x = ready(0) => x,
                x = ready(1) => x,
                x = ready(2) => x,
            });
        }
        drawn
    }
    let run = |mut builder: Builder, seed| {
        let runtime = builder.worker_threads(1).seed(seed).build().unwrap();
        let first = runtime.block_on(draw());
        let task = runtime.block_on(async { blitzen::spawn(draw()).await.unwrap() });
        assert_ne!(first, runtime.block_on(draw()), "it goes on, and not back");
        (first, task)
    };
    for builder in [Builder::new_current_thread, Builder::new_multi_thread] {
        assert_eq!(run(builder(), 1), run(builder(), 1));
        let (one, other) = (run(builder(), 1), run(builder(), 2));
        assert!(one.0 != other.0 && one.1 != other.1);
    }
}

#[test]
fn without_budget_nothing_is_polled_and_the_task_is_woken_later() {
    let select_once = || async {
        select! {
            biased;
            () = poll_fn(|cx| coop::poll_proceed(cx).map(|spent| spent.made_progress())) => {}
            () = ready(()) => {}
        }
    };
    coop::with_budget(|| {
        for _ in 0..coop::BUDGET {
            assert!(poll_once(pin!(select_once())).is_ready());
        }
        let mut late = pin!(select_once());
        assert!(poll_once(late.as_mut()).is_pending());
        coop::with_budget(|| assert!(poll_once(late).is_ready()));
    });
}

#[test]
fn whatever_turns_into_a_future_will_do() {
    struct Later(u32);
    impl IntoFuture for Later {
        type Output = u32;
        type IntoFuture = std::future::Ready<u32>;
        fn into_future(self) -> Self::IntoFuture {
            ready(self.0)
        }
    }
    block_on(async {
        assert_eq!(select! { x = Later(1) => x }, 1);
        select! { () = &mut ready(()) => {} }
    });
}

#[test]
fn branches_that_never_end_cause_no_warnings() {
    async fn never() -> ! {
        pending().await
    }
    block_on(async {
        let one = select! {
            _ = never() => 0,
            x = never() => x,
            x = ready(1) => x,
            Some(x) = async { None::<std::convert::Infallible> } => match x {},
        };
        assert_eq!(one, 1);
    });
}

#[test]
fn calls_nest_in_futures_and_in_handlers() {
    block_on(async {
        let sum = select! {
            x = async { select! { x = ready(1) => x, _ = pending::<()>() => 0 } } => select! {
                y = ready(x) => select! { z = ready(y) => x + y + z },
            },
        };
        assert_eq!(sum, 3);
    });
}

#[test]
fn pieces_may_come_through_another_macro() {
    macro_rules! wait {
        ($pattern:pat, $future:expr, $condition:expr, $handler:block, $otherwise:expr) => {
            select! {
                $pattern = $future, if $condition => $handler
                else => $otherwise,
            }
        };
    }
    block_on(async {
        assert_eq!(
            wait!(Some(1 | 2), ready(Some(1)), 1 < 2, { "yes" }, "no"),
            "yes"
        );
        assert_eq!(
            wait!(Some(1 | 2), ready(Some(3)), 1 < 2, { "yes" }, "no"),
            "no"
        );
    });
}

#[test]
fn names_of_the_expansion_and_of_the_caller_do_not_meet() {
    // What the expansion calls its own things.
    block_on(async {
        let (disabled, waiting, start, cx) = (1, 2, 3, 4);
        let futures = ready(5);
        let sum = select! {
            output = futures, if disabled + waiting == 3 => output + start + cx,
        };
        assert_eq!(sum, 12);
    });
}

#[test]
fn sixty_four_branches_fit() {
    block_on(async {
        let one = select! {
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
            x = ready(1) => x, x = ready(1) => x, x = ready(1) => x, x = ready(1) => x,
        };
        assert_eq!(one, 1);
    });
}

#[test]
fn the_last_of_sixty_four_branches_can_win_and_be_disabled() {
    macro_rules! after_63 {
        (if $enabled:expr; $($last:tt)*) => {
            select! {
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false, _ = pending::<()>(), if $enabled => false,
                $($last)*
            }
        };
    }
    block_on(async {
        assert!(after_63! { if true; x = ready(1) => x == 1 });
        assert!(after_63! { if false; Some(()) = ready(None) => false, else => true });
    });
}

#[test]
fn a_panic_in_a_future_drops_the_others() {
    let notes = RefCell::new(Vec::new());
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        block_on(async {
            let held = Noted("held", &notes);
            select! {
                biased;
                _ = async { let _held = &held; pending::<()>().await } => {}
                _ = async { panic!("on purpose") } => {}
            }
        })
    }));
    assert!(outcome.is_err());
    assert_eq!(*notes.borrow(), ["held"]);
}

#[test]
fn a_select_is_send_if_its_futures_are() {
    fn send<T: Send>(_: T) {}
    send(async {
        select! {
            x = async { 1 } => { async {}.await; x }
            _ = async { std::rc::Rc::new(1); } => 1,
        }
    });
}

#[test]
fn a_call_costs_the_futures_and_three_words() {
    use std::future::Ready;

    let one = async {
        let future = ready(0i32);
        select! { _ = future => {} }
    };
    let two = async {
        let (left, right) = (ready(0i32), ready(0i32));
        select! { _ = left => {}, _ = right => {} }
    };
    let words = 3 * size_of::<usize>();
    assert_eq!(size_of_val(&one), size_of::<Ready<i32>>() + words);
    assert_eq!(size_of_val(&two), 2 * size_of::<Ready<i32>>() + words);
}
