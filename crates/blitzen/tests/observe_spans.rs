//! Spans of the `tracing` crate in a trace.

use blitzen::runtime::{Builder, TraceLayer, TraceMode};
use blitzen::task::yield_now;
use tracing_subscriber::layer::SubscriberExt;

mod observe_common;
use observe_common::Decoded;

#[test]
fn spans_are_slices_within_the_poll_that_enters_them() {
    let spans = tracing_subscriber::registry().with(TraceLayer::new());
    let runtime = Builder::new_current_thread()
        .trace(TraceMode::Full)
        .build()
        .unwrap();
    tracing::subscriber::with_default(spans, || {
        let _outside = tracing::info_span!("outside").entered();
        let task = runtime.spawn(async {
            for _ in 0..3 {
                let request = tracing::info_span!("request").entered();
                tracing::info_span!("parse").in_scope(|| ());
                drop(request);
                yield_now().await;
            }
        });
        runtime.block_on(task).unwrap();
    });
    let decoded = Decoded::of(&runtime.handle().trace());
    let (requests, parses) = (
        decoded.slices_named("request"),
        decoded.slices_named("parse"),
    );
    assert_eq!((requests.len(), parses.len()), (3, 3));
    for (request, parse) in requests.iter().zip(&parses) {
        assert!(request.begin.at_ns <= parse.begin.at_ns && parse.end_ns <= request.end_ns);
    }
    assert!(
        decoded.slices_named("outside").is_empty(),
        "no task is polled there"
    );
}

#[test]
fn a_span_that_stays_entered_ends_with_the_poll() {
    let spans = tracing_subscriber::registry().with(TraceLayer::new());
    let runtime = Builder::new_current_thread()
        .trace(TraceMode::Full)
        .build()
        .unwrap();
    tracing::subscriber::with_default(spans, || {
        let task = runtime.spawn(async {
            let span = tracing::info_span!("held");
            std::mem::forget(span.enter());
            yield_now().await;
        });
        runtime.block_on(task).unwrap();
    });
    let decoded = Decoded::of(&runtime.handle().trace());
    assert_eq!(decoded.slices_named("held").len(), 1);
}
