//! What a recorder records.

/// What the recorder of a runtime records.
///
/// [`Builder::trace`] and [`Handle::set_trace`] take it.
///
/// [`Builder::trace`]: https://docs.rs/blitzen/latest/blitzen/runtime/struct.Builder.html#method.trace
/// [`Handle::set_trace`]: https://docs.rs/blitzen/latest/blitzen/runtime/struct.Handle.html#method.set_trace
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Builder, TraceMode};
///
/// let runtime = Builder::new_current_thread().trace(TraceMode::Full).build().unwrap();
/// runtime.block_on(runtime.spawn(async {})).unwrap();
/// assert!(!runtime.handle().trace().is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TraceMode {
    /// Nothing. This is the default.
    #[default]
    Off,
    /// Everything as long as little happens. A worker on which more happens records some
    /// milliseconds now and then, so that recording takes far less than 1 % of its time.
    Sampled,
    /// Everything. This takes some tens of nanoseconds for each poll and each wake.
    Full,
}
