//! Spans of the `tracing` crate as events of the recorder.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use tracing_core::span::Id;
use tracing_core::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// A layer of `tracing-subscriber` that shows spans in the [`Trace`](super::Trace) of a runtime:
/// each time a span is entered during the poll of a task, the trace has a slice with its name.
///
/// It needs the feature `tracing`. While nothing is recorded, entering a span costs a look at a
/// thread-local variable.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Builder, TraceLayer, TraceMode};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let spans = tracing_subscriber::registry().with(TraceLayer::new());
/// let runtime = Builder::new_current_thread().trace(TraceMode::Full).build().unwrap();
/// tracing::subscriber::with_default(spans, || {
///     runtime.block_on(runtime.spawn(async {
///         let _span = tracing::info_span!("parse").entered();
///     })).unwrap();
/// });
/// assert!(!runtime.handle().trace().is_empty());
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct TraceLayer {}

/// The name of each kind of span, where every recorder can refer to it. There are as many as
/// places in the code that make spans.
static NAMES: RwLock<BTreeMap<usize, &'static &'static str>> = RwLock::new(BTreeMap::new());

impl TraceLayer {
    /// Creates the layer.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::TraceLayer;
    /// use tracing_subscriber::layer::SubscriberExt;
    ///
    /// let subscriber = tracing_subscriber::registry().with(TraceLayer::new());
    /// # drop(subscriber);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }
}

fn name_of(metadata: &'static Metadata<'static>) -> &'static &'static str {
    let key = (&raw const *metadata).addr();
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.get(&key) {
        return name;
    }
    drop(names);
    let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    names
        .entry(key)
        .or_insert_with(|| Box::leak(Box::new(metadata.name())))
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceLayer {
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if blitzen_sched::is_recording()
            && let Some(metadata) = context.metadata(id)
        {
            blitzen_sched::record_span_enter(name_of(metadata));
        }
    }

    fn on_exit(&self, _: &Id, _: Context<'_, S>) {
        blitzen_sched::record_span_exit();
    }
}
