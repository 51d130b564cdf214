//! Fibers, whatever they are made of.

#![cfg(not(blitzen_loom))]

use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;

use blitzen_stack::FiberState::{Returned, Suspended};
use blitzen_stack::{DEFAULT_STACK_SIZE, Fiber, FiberInfo, Suspender, stack_counts};

fn info(stack_size: usize) -> FiberInfo {
    FiberInfo {
        name: Some("test"),
        spawned_at: Location::caller(),
        stack_size,
    }
}

#[test]
fn values_go_in_and_out() {
    let body = |suspender: &Suspender<u32, String>, mut number: u32| {
        while number != 0 {
            number = suspender.suspend(format!("{number}!"));
        }
        String::from("zero")
    };
    let mut fiber = Fiber::new(info(DEFAULT_STACK_SIZE), body).unwrap();
    for number in 1..100 {
        // SAFETY: on this thread only.
        let said = unsafe { fiber.resume(number) };
        assert_eq!(said, Suspended(format!("{number}!")));
    }
    // SAFETY: as above.
    assert_eq!(unsafe { fiber.resume(0) }, Returned("zero".into()));
}

#[test]
fn a_fiber_may_have_a_function_called_on_the_thread_that_has_resumed_it() {
    let resumer = std::thread::current().id();
    let body = move |suspender: &Suspender<u32, u32>, mut number: u32| {
        for _ in 0..2 {
            // SAFETY: it does not suspend the fiber.
            let called_on = unsafe {
                suspender.call_on_resumer(|| {
                    number += 1;
                    std::thread::current().id()
                })
            };
            assert_eq!(called_on, resumer);
            number = suspender.suspend(number);
        }
        // SAFETY: as above.
        let panics = || unsafe { suspender.call_on_resumer(|| panic!("called")) };
        let caught = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
        assert_eq!(caught.downcast_ref::<&str>(), Some(&"called"));
        number
    };
    let mut fiber = Fiber::new(info(DEFAULT_STACK_SIZE), body).unwrap();
    // SAFETY: on this thread only.
    unsafe {
        assert_eq!(fiber.resume(1), Suspended(2));
        assert_eq!(fiber.resume(5), Suspended(6));
        assert_eq!(fiber.resume(7), Returned(7));
    }
}

#[test]
fn a_fiber_that_never_starts_drops_its_function() {
    let value = Rc::new(());
    let held = value.clone();
    let body = move |_: &Suspender<(), ()>, ()| drop(held);
    drop(Fiber::new(info(DEFAULT_STACK_SIZE), body).unwrap());
    assert_eq!(Rc::strong_count(&value), 1);
}

#[test]
fn panics_are_caught_on_the_fibers_own_stack() {
    let body = |suspender: &Suspender<(), bool>, ()| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            suspender.suspend(false);
            panic!("caught");
        }));
        suspender.suspend(caught.is_err());
    };
    let mut fiber = Fiber::new(info(DEFAULT_STACK_SIZE), body).unwrap();
    // SAFETY: on this thread only.
    unsafe {
        assert_eq!(fiber.resume(()), Suspended(false));
        assert_eq!(fiber.resume(()), Suspended(true));
        assert_eq!(fiber.resume(()), Returned(()));
    }
}

#[test]
fn fibers_nest_and_interleave() {
    fn counter(first: u32) -> Fiber<(), u32, ()> {
        let body = move |suspender: &Suspender<(), u32>, ()| {
            (0..3).for_each(|step| suspender.suspend(first + step));
        };
        Fiber::new(info(64 * 1024), body).unwrap()
    }
    let body = |suspender: &Suspender<(), u32>, ()| {
        let (mut left, mut right) = (counter(10), counter(20));
        loop {
            // SAFETY: on this fiber's thread only. Both return in the same round.
            match unsafe { (left.resume(()), right.resume(())) } {
                (Suspended(left), Suspended(right)) => suspender.suspend(left + right),
                _ => return,
            }
        }
    };
    let mut outer = Fiber::new(info(DEFAULT_STACK_SIZE), body).unwrap();
    let mut said = Vec::new();
    // SAFETY: on this thread only.
    while let Suspended(sum) = unsafe { outer.resume(()) } {
        said.push(sum);
    }
    assert_eq!(said, [30, 32, 34]);
}

#[test]
fn the_whole_stack_can_be_used() {
    fn deep(levels: usize) -> usize {
        let block = std::hint::black_box([1_u8; 1024]);
        match levels {
            0 => 0,
            _ => deep(levels - 1) + block[levels % 1024] as usize,
        }
    }
    let body = |_: &Suspender<(), ()>, ()| assert_eq!(deep(2000), 2000);
    let mut fiber = Fiber::new(info(8 * 1024 * 1024), body).unwrap();
    // SAFETY: on this thread only.
    assert_eq!(unsafe { fiber.resume(()) }, Returned(()));
}

#[test]
fn stacks_are_counted() {
    let before = stack_counts();
    let body = |suspender: &Suspender<(), ()>, ()| suspender.suspend(());
    let mut fibers: Vec<_> = (0..100)
        .map(|_| Fiber::new(info(DEFAULT_STACK_SIZE), body).unwrap())
        .collect();
    assert!(stack_counts().live >= 100);
    assert!(stack_counts().created >= before.created);
    for fiber in &mut fibers {
        // SAFETY: on this thread only.
        unsafe {
            assert_eq!(fiber.resume(()), Suspended(()));
            assert_eq!(fiber.resume(()), Returned(()));
        }
    }
}
