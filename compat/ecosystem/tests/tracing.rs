//! tracing: a span follows its task from worker to worker.
#![cfg(feature = "tracing")]

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::{Instrument, info, info_span, instrument};
use tracing_subscriber::fmt::MakeWriter;

/// Collects what the subscriber writes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[instrument]
async fn step(request: u32, step: u32) {
    tokio::time::sleep(Duration::from_millis(1)).await;
    info!("request {request} does step {step}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_is_in_the_span_of_its_own_task() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false);
    tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for request in 0..20 {
        let work = async move {
            for number in 0..5 {
                step(request, number).await;
                tokio::task::yield_now().await;
            }
        };
        tasks.spawn(work.instrument(info_span!("request", id = request)));
    }
    tasks.join_all().await;

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for request in 0..20 {
        for step in 0..5 {
            let event = format!("request {request} does step {step}");
            let lines: Vec<&str> = log.lines().filter(|line| line.ends_with(&event)).collect();
            let spans = format!("request{{id={request}}}:step{{request={request} step={step}}}");
            assert!(lines.len() == 1 && lines[0].contains(&spans), "{lines:?}");
        }
    }
    assert_eq!(log.lines().count(), 100);
}
