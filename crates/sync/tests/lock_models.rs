//! Random uses of each primitive, compared step by step with a model that is
//! too simple to be wrong.

#![cfg(not(blitzen_loom))]

mod support;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use blitzen_sync::{
    AcquireError, Barrier, CancelToken, Mutex, MutexGuard, Notify, RwLock, RwLockReadGuard,
    RwLockWriteGuard, Semaphore, SemaphorePermit,
};
use proptest::prelude::*;
use support::{Task, task};

/// Permits in strict order of arrival.
#[derive(Default)]
struct Line {
    permits: usize,
    waiting: VecDeque<(usize, usize)>, // who, how many
    granted: Vec<usize>,
    closed: bool,
}

impl Line {
    fn serve(&mut self) {
        while let Some(&(who, count)) = self.waiting.front() {
            if self.closed || count > self.permits {
                return;
            }
            self.permits -= count;
            self.granted.push(who);
            self.waiting.pop_front();
        }
    }

    fn available(&self) -> usize {
        match self.waiting.is_empty() {
            true => self.permits,
            false => 0,
        }
    }

    fn try_acquire(&mut self, count: usize) -> bool {
        let can = !self.closed && (count == 0 || self.available() >= count);
        if can {
            self.permits -= count;
        }
        can
    }

    /// `Some` if settled at once.
    fn acquire(&mut self, who: usize, count: usize) -> Option<bool> {
        if self.closed || self.try_acquire(count) {
            return Some(!self.closed);
        }
        self.waiting.push_back((who, count));
        None
    }

    fn release(&mut self, count: usize) {
        self.permits += count;
        self.serve();
    }

    fn leave(&mut self, who: usize, count: usize) {
        if self.granted.contains(&who) {
            self.granted.retain(|other| *other != who);
            self.release(count);
        } else {
            self.waiting.retain(|(other, _)| *other != who);
            self.serve();
        }
    }
}

/// A future in line, and who it is in the model.
type Waiting<'a, T> = (usize, usize, Task<Pin<Box<dyn Future<Output = T> + 'a>>>);

fn waiting<'a, T>(
    who: usize,
    count: usize,
    future: impl Future<Output = T> + 'a,
) -> Waiting<'a, T> {
    (who, count, task(Box::pin(future)))
}

#[derive(Clone, Debug)]
enum Step {
    Try(usize),
    Acquire(usize),
    Poll(usize),
    Abandon(usize),
    Release(usize),
    Add(usize),
    Forget(usize),
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4usize).prop_map(Step::Try),
        8 => (0..5usize).prop_map(Step::Acquire),
        6 => any::<usize>().prop_map(Step::Poll),
        4 => any::<usize>().prop_map(Step::Abandon),
        8 => any::<usize>().prop_map(Step::Release),
        2 => (0..4usize).prop_map(Step::Add),
        1 => (0..4usize).prop_map(Step::Forget),
        1 => Just(Step::Close),
    ];
    prop::collection::vec(step, 0..60)
}

fn pick<T>(list: &mut Vec<T>, index: usize) -> Option<T> {
    (!list.is_empty()).then(|| list.remove(index % list.len()))
}

proptest! {
    #[test]
    fn a_semaphore_serves_in_order(start in 0..6usize, steps in steps()) {
        let semaphore = Semaphore::new(start);
        let mut line = Line { permits: start, ..Line::default() };
        let mut held: Vec<SemaphorePermit<'_>> = Vec::new();
        let mut tasks: Vec<Waiting<'_, Result<SemaphorePermit<'_>, AcquireError>>> = Vec::new();
        for (who, step) in steps.into_iter().enumerate() {
            match step {
                Step::Try(count) => {
                    let permit = semaphore.try_acquire_many(count as u32);
                    prop_assert_eq!(permit.is_ok(), line.try_acquire(count));
                    held.extend(permit);
                }
                Step::Acquire(count) => {
                    let mut waiter = waiting(who, count, semaphore.acquire_many(count as u32));
                    let poll = waiter.2.poll();
                    match line.acquire(who, count) {
                        Some(granted) => match poll {
                            std::task::Poll::Ready(outcome) => {
                                prop_assert_eq!(outcome.is_ok(), granted);
                                held.extend(outcome);
                            }
                            std::task::Poll::Pending => prop_assert!(false, "waits"),
                        },
                        None => {
                            prop_assert!(poll.is_pending());
                            tasks.push(waiter);
                        }
                    }
                }
                Step::Poll(index) => {
                    if let Some((who, count, mut task)) = pick(&mut tasks, index) {
                        let granted = line.granted.contains(&who);
                        match task.poll() {
                            std::task::Poll::Ready(Ok(permit)) => {
                                prop_assert!(granted);
                                line.granted.retain(|other| *other != who);
                                held.push(permit);
                            }
                            std::task::Poll::Ready(Err(_)) => prop_assert!(line.closed && !granted),
                            std::task::Poll::Pending => {
                                prop_assert!(!granted && !line.closed);
                                tasks.push((who, count, task));
                            }
                        }
                    }
                }
                Step::Abandon(index) => {
                    if let Some((who, count, task)) = pick(&mut tasks, index) {
                        drop(task);
                        line.leave(who, count);
                    }
                }
                Step::Release(index) => {
                    if let Some(permit) = pick(&mut held, index) {
                        line.release(permit.num_permits());
                        drop(permit);
                    }
                }
                Step::Add(count) => {
                    semaphore.add_permits(count);
                    line.release(count);
                }
                Step::Forget(count) => {
                    let forgotten = line.available().min(count);
                    line.permits -= forgotten;
                    prop_assert_eq!(semaphore.forget_permits(count), forgotten);
                }
                Step::Close => {
                    semaphore.close();
                    line.closed = true;
                    line.waiting.clear();
                }
            }
            prop_assert_eq!(semaphore.available_permits(), line.available());
            prop_assert_eq!(semaphore.is_closed(), line.closed);
            for (who, _, task) in &tasks {
                let settled = line.closed || line.granted.contains(who);
                prop_assert_eq!(task.wakes(), usize::from(settled));
            }
        }
    }

    #[test]
    fn a_mutex_behaves_like_a_queue_with_one_holder(steps in steps()) {
        let mutex = Mutex::new(());
        let mut line = Line { permits: 1, ..Line::default() };
        let mut held: Option<MutexGuard<'_, ()>> = None;
        let mut tasks: Vec<Waiting<'_, MutexGuard<'_, ()>>> = Vec::new();
        for (who, step) in steps.into_iter().enumerate() {
            match step {
                Step::Try(_) => {
                    let guard = mutex.try_lock().ok();
                    prop_assert_eq!(guard.is_some(), line.try_acquire(1));
                    held = held.or(guard);
                }
                Step::Acquire(_) => {
                    let mut waiter = waiting(who, 1, mutex.lock());
                    match (line.acquire(who, 1), waiter.2.poll()) {
                        (Some(_), std::task::Poll::Ready(guard)) => held = Some(guard),
                        (None, std::task::Poll::Pending) => tasks.push(waiter),
                        _ => prop_assert!(false, "the model differs"),
                    }
                }
                Step::Poll(index) => {
                    if let Some((who, count, mut task)) = pick(&mut tasks, index) {
                        match task.poll() {
                            std::task::Poll::Ready(guard) => {
                                prop_assert_eq!(&line.granted, &[who]);
                                line.granted.clear();
                                held = Some(guard);
                            }
                            std::task::Poll::Pending => tasks.push((who, count, task)),
                        }
                    }
                }
                Step::Abandon(index) => {
                    if let Some((who, count, task)) = pick(&mut tasks, index) {
                        drop(task);
                        line.leave(who, count);
                    }
                }
                Step::Release(_) => {
                    if held.take().is_some() {
                        line.release(1);
                    }
                }
                Step::Add(_) | Step::Forget(_) | Step::Close => {}
            }
            for (who, _, task) in &tasks {
                prop_assert_eq!(task.is_woken(), line.granted.contains(who));
            }
        }
    }

    #[test]
    fn a_rwlock_behaves_like_a_queue_of_readers_and_writers(steps in steps()) {
        enum Guard<'a> {
            Read(RwLockReadGuard<'a, ()>),
            Write(RwLockWriteGuard<'a, ()>),
        }
        const ALL: usize = 3;
        let lock = RwLock::with_max_readers((), ALL as u32);
        let mut line = Line { permits: ALL, ..Line::default() };
        let mut held: Vec<Guard<'_>> = Vec::new();
        let mut tasks: Vec<Waiting<'_, Guard<'_>>> = Vec::new();
        for (who, step) in steps.into_iter().enumerate() {
            match step {
                Step::Try(kind) if kind % 2 == 0 => {
                    let guard = lock.try_read().ok();
                    prop_assert_eq!(guard.is_some(), line.try_acquire(1));
                    held.extend(guard.map(Guard::Read));
                }
                Step::Try(_) => {
                    let guard = lock.try_write().ok();
                    prop_assert_eq!(guard.is_some(), line.try_acquire(ALL));
                    held.extend(guard.map(Guard::Write));
                }
                Step::Acquire(kind) => {
                    let count = if kind % 2 == 0 { 1 } else { ALL };
                    let mut waiter = match count {
                        1 => waiting(who, 1, async { Guard::Read(lock.read().await) }),
                        _ => waiting(who, ALL, async { Guard::Write(lock.write().await) }),
                    };
                    match (line.acquire(who, count), waiter.2.poll()) {
                        (Some(_), std::task::Poll::Ready(guard)) => held.push(guard),
                        (None, std::task::Poll::Pending) => tasks.push(waiter),
                        _ => prop_assert!(false, "the model differs"),
                    }
                }
                Step::Poll(index) => {
                    if let Some((who, count, mut task)) = pick(&mut tasks, index) {
                        match task.poll() {
                            std::task::Poll::Ready(guard) => {
                                prop_assert!(line.granted.contains(&who));
                                line.granted.retain(|other| *other != who);
                                held.push(guard);
                            }
                            std::task::Poll::Pending => tasks.push((who, count, task)),
                        }
                    }
                }
                Step::Abandon(index) => {
                    if let Some((who, count, task)) = pick(&mut tasks, index) {
                        drop(task);
                        line.leave(who, count);
                    }
                }
                Step::Release(index) => match pick(&mut held, index) {
                    Some(Guard::Read(guard)) => {
                        drop(guard);
                        line.release(1);
                    }
                    Some(Guard::Write(guard)) => {
                        drop(guard);
                        line.release(ALL);
                    }
                    None => {}
                },
                Step::Add(_) | Step::Forget(_) | Step::Close => {
                    // Downgrade a writer.
                    held = held
                        .into_iter()
                        .map(|guard| match guard {
                            Guard::Write(guard) => {
                                line.release(ALL - 1);
                                Guard::Read(guard.downgrade())
                            }
                            read @ Guard::Read(_) => read,
                        })
                        .collect();
                }
            }
            for (who, _, task) in &tasks {
                prop_assert_eq!(task.is_woken(), line.granted.contains(who));
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Call {
    Listen,
    Poll(usize),
    Enable(usize),
    Drop(usize),
    One,
    Last,
    All,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        4 => Just(Call::Listen),
        6 => any::<usize>().prop_map(Call::Poll),
        2 => any::<usize>().prop_map(Call::Enable),
        4 => any::<usize>().prop_map(Call::Drop),
        4 => Just(Call::One),
        3 => Just(Call::Last),
        2 => Just(Call::All),
    ];
    prop::collection::vec(call, 0..60)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ear {
    Fresh,
    Queued,
    First,
    Last,
    Done,
}

/// Listeners in order of arrival in the queue, and a permit.
#[derive(Default)]
struct Ears {
    permit: bool,
    queue: VecDeque<usize>,
    ears: Vec<Ear>,
}

impl Ears {
    fn one(&mut self, last: bool) {
        let next = match last {
            true => self.queue.pop_back(),
            false => self.queue.pop_front(),
        };
        match next {
            Some(who) => self.ears[who] = if last { Ear::Last } else { Ear::First },
            None => self.permit = true,
        }
    }

    fn poll(&mut self, who: usize) -> bool {
        match self.ears[who] {
            Ear::Fresh if self.permit => self.permit = false,
            Ear::Fresh => {
                self.ears[who] = Ear::Queued;
                self.queue.push_back(who);
                return false;
            }
            Ear::Queued => return false,
            Ear::First | Ear::Last | Ear::Done => {}
        }
        self.ears[who] = Ear::Done;
        true
    }
}

proptest! {
    #[test]
    fn a_notify_reaches_whom_it_should(calls in calls()) {
        let notify = Notify::new();
        let mut model = Ears::default();
        let mut tasks = Vec::new();
        for call in calls {
            match call {
                Call::Listen => {
                    tasks.push((model.ears.len(), task(notify.notified())));
                    model.ears.push(Ear::Fresh);
                }
                Call::Poll(index) if !tasks.is_empty() => {
                    let index = index % tasks.len();
                    let (who, task) = &mut tasks[index];
                    prop_assert_eq!(task.poll().is_ready(), model.poll(*who));
                }
                Call::Enable(index) if !tasks.is_empty() => {
                    let index = index % tasks.len();
                    let (who, task) = &mut tasks[index];
                    prop_assert_eq!(task.pinned().enable(), model.poll(*who));
                }
                Call::Drop(index) => {
                    if let Some((who, task)) = pick(&mut tasks, index) {
                        drop(task);
                        model.queue.retain(|other| *other != who);
                        match std::mem::replace(&mut model.ears[who], Ear::Done) {
                            Ear::First => model.one(false),
                            Ear::Last => model.one(true),
                            Ear::Fresh | Ear::Queued | Ear::Done => {}
                        }
                    }
                }
                Call::One => {
                    notify.notify_one();
                    model.one(false);
                }
                Call::Last => {
                    notify.notify_last();
                    model.one(true);
                }
                Call::All => {
                    notify.notify_waiters();
                    model.queue.clear();
                    for ear in &mut model.ears {
                        if matches!(ear, Ear::Fresh | Ear::Queued) {
                            *ear = Ear::Done;
                        }
                    }
                }
                Call::Poll(_) | Call::Enable(_) => {}
            }
        }
        // What is left comes out right.
        for (who, mut task) in tasks {
            prop_assert_eq!(task.poll().is_ready(), model.poll(who));
        }
    }

    #[test]
    fn a_barrier_opens_for_as_many_as_it_should(
        size in 2..5usize,
        calls in prop::collection::vec((any::<bool>(), any::<usize>()), 0..60),
    ) {
        let barrier = Barrier::new(size);
        let mut here: Vec<usize> = Vec::new();
        let mut tasks = Vec::new();
        for (who, (arrive, index)) in calls.into_iter().enumerate() {
            if arrive {
                let mut waiter = task(barrier.wait());
                let met = waiter.poll();
                here.push(who);
                if here.len() == size {
                    prop_assert!(matches!(met, std::task::Poll::Ready(met) if met.is_leader()));
                    here.clear();
                } else {
                    prop_assert!(met.is_pending());
                    tasks.push((who, waiter));
                }
            } else if let Some((who, mut waiter)) = pick(&mut tasks, index) {
                let waits = here.contains(&who);
                prop_assert_eq!(waiter.is_woken(), !waits);
                if index % 2 == 0 {
                    match waiter.poll() {
                        std::task::Poll::Ready(met) => prop_assert!(!waits && !met.is_leader()),
                        std::task::Poll::Pending => prop_assert!(waits),
                    }
                }
                drop(waiter);
                here.retain(|other| *other != who);
            }
        }
    }

    #[test]
    fn a_token_is_cancelled_with_all_above_it(
        calls in prop::collection::vec((0..6u8, any::<usize>()), 0..60),
    ) {
        // By index: the parent, and whether it is cancelled.
        let mut model: Vec<(Option<usize>, bool)> = vec![(None, false)];
        let mut tokens = vec![(0, CancelToken::new())];
        let mut tasks = Vec::new();
        for (call, index) in calls {
            match call {
                0..=2 if !tokens.is_empty() => {
                    let (parent, token) = &tokens[index % tokens.len()];
                    let (parent, child) = (*parent, token.child_token());
                    model.push((Some(parent), model[parent].1));
                    tokens.push((model.len() - 1, child));
                }
                3 => {
                    pick(&mut tokens, index);
                }
                4 if !tokens.is_empty() => {
                    let (who, token) = &tokens[index % tokens.len()];
                    tasks.push((*who, task(token.clone().cancelled_owned())));
                    let (who, waiter) = tasks.last_mut().unwrap();
                    prop_assert_eq!(waiter.poll().is_ready(), model[*who].1);
                }
                5 if !tokens.is_empty() => {
                    let (who, token) = &tokens[index % tokens.len()];
                    token.cancel();
                    model[*who].1 = true;
                    for child in 0..model.len() {
                        // Children come after their parents.
                        if model[child].0.is_some_and(|parent| model[parent].1) {
                            model[child].1 = true;
                        }
                    }
                }
                _ => {}
            }
            for (who, token) in &tokens {
                prop_assert_eq!(token.is_cancelled(), model[*who].1);
            }
        }
        for (who, mut waiter) in tasks {
            prop_assert_eq!(waiter.poll().is_ready(), model[who].1);
        }
    }
}
