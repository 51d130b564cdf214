//! Work that blocks, as tasks on the pool of threads for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use blitzen_sched::{Job, JobRecord, Refused, end_blocking};
use blitzen_task::glue::next_id;
use blitzen_task::{Header, Runnable, Schedule, SpawnMeta};

use super::inner::Inner;
use crate::task::JoinHandle;

/// A closure as a future that ends with its first poll.
struct BlockingCall<F> {
    code: Option<F>,
    /// If events are recorded.
    record: Option<Box<JobRecord>>,
}

// The closure is moved out before it is called, and never pinned.
impl<F> Unpin for BlockingCall<F> {}

impl<F: FnOnce() -> R, R> Future for BlockingCall<F> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<R> {
        let Some(code) = self.code.take() else {
            unreachable!("a blocking task is polled once");
        };
        Poll::Ready(match self.record.take() {
            None => code(),
            Some(record) => record.run(code),
        })
    }
}

/// The scheduler of a task that is never woken: it waits in the pool's queue
/// for its one poll.
struct Once;

impl Schedule for Once {
    fn schedule(&self, task: Runnable) {
        drop(task);
    }

    fn release(&self, _: &Header) {}
}

impl Inner {
    /// Runs code that blocks; `mandatory` code runs even if the runtime shuts
    /// down first.
    #[track_caller]
    pub(crate) fn spawn_blocking<F, R>(
        &self,
        code: F,
        mandatory: bool,
        meta: SpawnMeta,
    ) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let id = next_id();
        let future = BlockingCall {
            code: Some(code),
            record: self.scheduler().record_job(id, &meta),
        };
        let meta = meta.with_closure_span::<F>(id);
        let (task, handle) = blitzen_task::spawn(future, Once, id, meta);
        self.world().quiescence().begin_blocking();
        match self.pool().submit(Job { task, mandatory }) {
            Ok(()) => {}
            Err(Refused::Closed(job)) => {
                drop(job); // which cancels it
                end_blocking(&**self.world());
            }
            Err(Refused::NoThread(error)) => panic!("OS can't spawn worker thread: {error}"),
        }
        handle
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use blitzen_sched::SectionEnd;

    use crate::runtime::{Builder, Runtime, context};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::{self, Receiver, Sender};
    use std::time::Duration;

    /// Long enough that only what never happens runs into it.
    const FOREVER: Duration = Duration::from_secs(30);

    fn with_workers(workers: usize) -> Runtime {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(workers)
            .enable_all()
            .build()
            .unwrap()
    }

    /// A blocking section of the worker whose thread this is.
    fn blocking_section<R>(code: impl FnOnce() -> R) -> Option<(R, SectionEnd)> {
        context::with_current(|handle| handle.inner.scheduler().blocking_section(code).ok())
            .unwrap()
    }

    /// Tries until there is a monitor; says when it has begun.
    async fn long_section(wait: Receiver<()>, begun: Arc<AtomicUsize>) -> SectionEnd {
        let mut wait = Some(wait);
        loop {
            let blocked = blocking_section(|| {
                begun.fetch_add(1, SeqCst);
                wait.take().unwrap().recv_timeout(FOREVER)
            });
            match blocked {
                Some((received, end)) => {
                    received.expect("somebody went on with the worker");
                    return end;
                }
                None => crate::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    #[test]
    fn workers_whose_threads_are_all_in_long_blocking_sections_go_on_elsewhere() {
        for workers in [1, 2, 3] {
            let runtime = with_workers(workers);
            runtime.block_on(async {
                let begun = Arc::new(AtomicUsize::new(0));
                let (ends, waits): (Vec<Sender<()>>, Vec<_>) =
                    (0..workers).map(|_| mpsc::channel()).unzip();
                let away: Vec<_> = waits
                    .into_iter()
                    .map(|wait| {
                        let begun = begun.clone();
                        crate::spawn(async move {
                            let end = long_section(wait, begun).await;
                            // What is left of the poll, and the polls after it,
                            // have all there is in a runtime.
                            crate::time::sleep(Duration::from_millis(1)).await;
                            crate::spawn(async {}).await.unwrap();
                            end
                        })
                    })
                    .collect();
                // It needs a worker, and all of them were handed off.
                let others = crate::spawn(async move {
                    while begun.load(SeqCst) < workers {
                        crate::time::sleep(Duration::from_millis(1)).await;
                    }
                    for end in ends {
                        end.send(()).unwrap();
                        crate::task::yield_now().await;
                    }
                });
                others.await.unwrap();
                let mut long = 0;
                for task in away {
                    long += usize::from(task.await.unwrap() == SectionEnd::HandedOff);
                }
                assert!(long > 0, "nobody was relieved");
            });
            // All workers are available again.
            runtime.block_on(async {
                let tasks = [(); 100].map(|()| crate::spawn(crate::task::yield_now()));
                for task in tasks {
                    task.await.unwrap();
                }
            });
        }
    }

    #[test]
    fn a_long_section_takes_no_thread_of_the_pool() {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(1);
        let runtime = builder.enable_all().build().unwrap();
        let (end, wait) = mpsc::channel();
        runtime.block_on(async {
            let away = crate::spawn(long_section(wait, Arc::default()));
            let other = crate::spawn(async move {
                crate::time::sleep(Duration::from_millis(5)).await; // on the worker
                crate::task::spawn_blocking(|| ()).await.unwrap();
                end.send(()).unwrap();
            });
            crate::time::timeout(FOREVER, other).await.unwrap().unwrap();
            away.await.unwrap();
        });
    }

    #[test]
    fn a_thread_that_was_on_a_long_section_is_busy_only_until_its_end() {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().start_paused(true);
        let runtime = builder.build().unwrap();
        let (end, wait) = mpsc::channel();
        let ender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30)); // it is relieved by then
            end.send(()).unwrap();
        });
        runtime.block_on(async {
            crate::spawn(long_section(wait, Arc::default()))
                .await
                .unwrap();
            // A clock that stands still moves when nobody is busy.
            crate::time::sleep(Duration::from_secs(3600)).await;
        });
        ender.join().unwrap();
    }

    #[test]
    fn short_sections_leave_the_worker_where_it_is() {
        let runtime = with_workers(2);
        let task = async {
            let mut done = 0;
            while done < 1000 {
                let before = crate::runtime::worker_index();
                match blocking_section(crate::runtime::worker_index) {
                    Some((during, SectionEnd::Kept)) => {
                        assert_eq!(during, None);
                        assert_eq!(crate::runtime::worker_index(), before);
                        done += 1;
                    }
                    // On a machine that is very busy.
                    Some((_, SectionEnd::HandedOff)) => crate::task::yield_now().await,
                    None => crate::time::sleep(Duration::from_millis(1)).await,
                }
            }
        };
        runtime.block_on(async { crate::spawn(task).await.unwrap() });
    }

    #[test]
    fn a_panic_in_a_blocking_section_takes_nothing_along() {
        let runtime = with_workers(2);
        runtime.block_on(async {
            for _ in 0..20 {
                let task = crate::spawn(async {
                    while blocking_section::<()>(|| panic!("in a blocking section")).is_none() {
                        crate::time::sleep(Duration::from_millis(1)).await;
                    }
                });
                assert!(task.await.unwrap_err().is_panic());
            }
        });
    }

    #[test]
    fn a_runtime_may_be_dropped_while_a_thread_is_in_a_blocking_section() {
        for relieved in [false, true] {
            let runtime = with_workers(2);
            let (end, wait) = mpsc::channel();
            let (begun, has_begun) = mpsc::channel();
            let is_through = Arc::new(AtomicBool::new(false));
            let through = is_through.clone();
            runtime.spawn(async move {
                let mut wait = Some(wait);
                loop {
                    let blocked = blocking_section(|| {
                        begun.send(()).unwrap();
                        wait.take().unwrap().recv_timeout(FOREVER).unwrap();
                        through.store(true, SeqCst);
                    });
                    match blocked {
                        Some(_) => return crate::task::yield_now().await,
                        None => crate::time::sleep(Duration::from_millis(1)).await,
                    }
                }
            });
            has_begun.recv_timeout(FOREVER).unwrap();
            if relieved {
                let both = runtime.block_on(async {
                    [(); 2].map(|()| crate::spawn(crate::time::sleep(Duration::from_millis(10))))
                });
                for task in both {
                    runtime.block_on(task).unwrap();
                }
            }
            let ender = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                end.send(()).unwrap();
            });
            drop(runtime); // hangs if somebody is lost
            assert!(is_through.load(SeqCst), "it was not waited for");
            ender.join().unwrap();
        }
    }

    #[test]
    fn a_worker_that_cannot_move_enters_no_blocking_section() {
        assert!(context::with_current(|_| ()).is_err());
        let current = Builder::new_current_thread().build().unwrap();
        assert!(
            current
                .block_on(async { blocking_section(|| ()) })
                .is_none()
        );
        let runtime = with_workers(2);
        assert!(
            runtime
                .block_on(async { blocking_section(|| ()) })
                .is_none()
        );
    }
}
