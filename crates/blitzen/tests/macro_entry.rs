//! What `#[main]` and `#[test]` promise.

#![deny(warnings)]
#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt::Debug;

use blitzen::runtime::{Handle, RuntimeFlavor};

#[blitzen::main]
async fn plain() -> RuntimeFlavor {
    Handle::current().runtime_flavor()
}

#[blitzen::main(flavor = "current_thread")]
async fn on_the_caller() -> RuntimeFlavor {
    Handle::current().runtime_flavor()
}

#[blitzen::main(flavor = "multi_thread", worker_threads = 3)]
async fn three_workers() -> usize {
    Handle::current().metrics().num_workers()
}

#[test]
fn the_flavor_is_the_one_asked_for() {
    assert_eq!(plain(), RuntimeFlavor::MultiThread);
    assert_eq!(on_the_caller(), RuntimeFlavor::CurrentThread);
    assert_eq!(three_workers(), 3);
}

#[blitzen::test]
async fn a_test_runs_on_the_calling_thread() {
    assert_eq!(
        Handle::current().runtime_flavor(),
        RuntimeFlavor::CurrentThread
    );
    assert_eq!(blitzen::spawn(async { 1 }).await.unwrap(), 1);
}

#[blitzen::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_test_runs_on_workers_if_asked() {
    assert_eq!(
        Handle::current().runtime_flavor(),
        RuntimeFlavor::MultiThread
    );
}

#[blitzen::test(name = "named")]
async fn a_runtime_can_have_a_name() {
    assert_eq!(Handle::current().name(), Some("named"));
}

#[blitzen::test(unhandled_panic = "ignore")]
async fn a_panic_is_the_task_s_if_asked() {
    let task = blitzen::spawn(async { panic!("on purpose") });
    assert!(task.await.unwrap_err().is_panic());
}

#[blitzen::test(flavor = "current_thread", unhandled_panic = "shutdown_runtime")]
async fn a_runtime_that_would_stop_at_a_panic_runs_what_does_not() {
    blitzen::spawn(async {}).await.unwrap();
}

#[blitzen::test(start_paused = true)]
async fn a_clock_that_starts_paused_runs_what_does_not_wait() {
    blitzen::spawn(async {}).await.unwrap();
}

#[blitzen::test(flavor = "local")]
async fn a_local_runtime_runs_what_is_not_send() {
    let local = std::rc::Rc::new(1);
    let task = blitzen::task::spawn_local(async move { *local });
    assert_eq!(task.await.unwrap(), 1);
}

#[blitzen::test]
#[should_panic(expected = "on purpose")]
async fn other_attributes_of_tests_work() {
    panic!("on purpose");
}

#[blitzen::test]
async fn a_test_can_return_a_result() -> Result<(), Box<dyn Error>> {
    assert_eq!("1".parse::<u32>()?, 1);
    Ok(())
}

#[allow(unreachable_code)]
#[blitzen::test]
async fn a_test_can_return_early() -> Result<(), String> {
    return Ok(());
    panic!();
}

#[blitzen::main(flavor = "current_thread")]
async fn generic<'a, T, F: Fn(&'a T) -> u32>(value: &'a T, map: F) -> (u32, &'a T)
where
    T: Debug,
{
    (map(value), value)
}

#[blitzen::main(flavor = "current_thread")]
async fn with_impl(mut number: u32) -> impl Debug {
    number += 1;
    number
}

#[blitzen::main(flavor = "current_thread")]
pub(crate) async fn never() -> ! {
    panic!("on purpose");
}

#[blitzen::main(flavor = "current_thread")]
async fn inner_attributes() {
    #![allow(unused_variables)]
    let unused = 1;
}

#[rustfmt::skip] // on one line, braces would be warned about
#[blitzen::main(flavor = "current_thread")]
async fn one_line() -> u32 { 1 }

#[test]
fn any_function_will_do() {
    assert_eq!(generic(&1, |one| *one + 1), (2, &1));
    assert_eq!(format!("{:?}", with_impl(1)), "2");
    assert!(std::panic::catch_unwind(|| never()).is_err());
    inner_attributes();
    assert_eq!(one_line(), 1);
}

#[test]
fn methods_will_do() {
    trait Twice {
        fn twice(self) -> u32;
    }
    struct Number(u32);
    impl Number {
        #[blitzen::main(flavor = "current_thread")]
        async fn get(&self) -> &u32 {
            &self.0
        }
    }
    impl Twice for Number {
        #[blitzen::main(flavor = "current_thread")]
        async fn twice(self) -> u32 {
            self.0 * 2
        }
    }
    assert_eq!(*Number(1).get(), 1);
    assert_eq!(Number(1).twice(), 2);
}

mod renamed {
    pub(crate) use ::blitzen as other;
}

#[renamed::other::test(crate = "renamed::other")]
async fn the_crate_can_go_by_another_name() {
    renamed::other::spawn(async {}).await.unwrap();
}

macro_rules! through_a_macro {
    ($(#[$attribute:meta])* $visibility:vis async fn $name:ident() $body:block) => {
        $(#[$attribute])*
        #[blitzen::test]
        $visibility async fn $name() $body
    };
}

through_a_macro! {
    pub(crate) async fn a_function_can_come_through_a_macro() {
        blitzen::spawn(async {}).await.unwrap();
    }
}
