//! Spans and events with the names and fields of Tokio's.

use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use blitzen_util::quiet::quietly;
use tracing::span::Entered;
use tracing::{Span, trace, trace_span};

/// A span whose end cannot panic (Q2).
#[derive(Clone, Debug)]
struct QuietSpan(Option<Span>);

impl QuietSpan {
    const NONE: Self = Self(None);

    fn new(span: Span) -> Self {
        Self(Some(span))
    }

    fn scope<R>(&self, code: impl FnOnce() -> R) -> R {
        match &self.0 {
            Some(span) => span.in_scope(code),
            None => code(),
        }
    }

    fn enter(&self) -> Option<Entered<'_>> {
        self.0.as_ref().map(Span::enter)
    }
}

// A span has no state that a panic could leave half changed: a subscriber answers for its own.
impl UnwindSafe for QuietSpan {}
impl RefUnwindSafe for QuietSpan {}

impl Drop for QuietSpan {
    fn drop(&mut self) {
        if let Some(span) = self.0.take() {
            quietly(|| drop(span));
        }
    }
}

/// The span of a resource, which is part of no other.
macro_rules! resource_span {
    ($location:expr, $target:literal, $($field:ident = $value:literal),*) => {{
        let location: &Location<'_> = $location;
        QuietSpan::new(trace_span!(
            target: $target,
            parent: None,
            "runtime.resource",
            $($field = $value,)*
            loc.file = location.file(),
            loc.line = location.line(),
            loc.col = location.column(),
        ))
    }};
}

/// The spans of an operation on a resource.
macro_rules! op_spans {
    ($resource:expr, $target:literal, $($field:tt)*) => {{
        let op = $resource.scope(|| {
            trace_span!(target: $target, "runtime.resource.async_op", $($field)*)
        });
        let poll = op.in_scope(|| trace_span!(target: $target, "runtime.resource.async_op.poll"));
        OpSpans {
            op: QuietSpan::new(op),
            poll: QuietSpan::new(poll),
        }
    }};
}

/// Reports a part of the state of the resource whose span is current.
macro_rules! update {
    ($($field:tt)*) => { trace!(target: "runtime::resource::state_update", $($field)*) };
}

/// What a semaphore is part of.
#[derive(Clone, Copy, Debug)]
enum SemaphoreOwner {
    Mutex,
    RwLock { max_readers: usize },
    Semaphore,
}

impl SemaphoreOwner {
    /// Reports what `count` permits mean that were acquired.
    fn update_acquired(self, count: usize) {
        match self {
            Self::Mutex => update!(locked = true),
            Self::RwLock { max_readers } if count == max_readers => {
                update!(write_locked = true, write_locked.op = "override");
            }
            Self::RwLock { .. } => update!(current_readers = count, current_readers.op = "add"),
            Self::Semaphore => {}
        }
    }

    /// Reports what `count` permits mean that were released.
    fn update_released(self, count: usize) {
        match self {
            Self::Mutex => update!(locked = false),
            Self::RwLock { max_readers } if count == max_readers => {
                update!(write_locked = false, write_locked.op = "override");
            }
            Self::RwLock { .. } if count > 1 => {
                // A writer has become a reader.
                update!(write_locked = false, write_locked.op = "override");
                update!(current_readers = 1, current_readers.op = "override");
            }
            Self::RwLock { .. } => update!(current_readers = count, current_readers.op = "sub"),
            Self::Semaphore => {}
        }
    }
}

/// The spans of a semaphore, and of the lock that is built on it; `None` for those in a `static`,
/// and those inside other types.
#[derive(Clone)]
pub(crate) struct SemaphoreSpans(Option<OwnedSemaphore>);

#[derive(Clone)]
struct OwnedSemaphore {
    owner: SemaphoreOwner,
    owner_span: QuietSpan,
    span: QuietSpan,
}

impl SemaphoreSpans {
    pub(crate) const NONE: Self = Self(None);

    #[track_caller]
    pub(crate) fn of_mutex() -> Self {
        let location = Location::caller();
        let owner =
            resource_span!(location, "tokio::sync::mutex", concrete_type = "Mutex", kind = "Sync");
        let span = owner.scope(|| {
            update!(locked = false);
            semaphore_span(1, location)
        });
        Self::new(SemaphoreOwner::Mutex, owner, span)
    }

    #[track_caller]
    pub(crate) fn of_rwlock(max_readers: u32) -> Self {
        let location = Location::caller();
        let owner =
            resource_span!(location, "tokio::sync::rwlock", concrete_type = "RwLock", kind = "Sync");
        owner.scope(|| {
            update!(max_readers = max_readers);
            update!(write_locked = false);
            update!(current_readers = 0);
        });
        let permits = max_readers as usize;
        let span = owner.scope(|| semaphore_span(permits, location));
        let kind = SemaphoreOwner::RwLock {
            max_readers: permits,
        };
        Self::new(kind, owner, span)
    }

    #[track_caller]
    pub(crate) fn of_semaphore(permits: usize) -> Self {
        let location = Location::caller();
        let owner = resource_span!(
            location,
            "tokio::sync::semaphore",
            concrete_type = "Semaphore",
            kind = "Sync",
            inherits_child_attrs = true
        );
        let span = owner.scope(|| semaphore_span(permits, location));
        Self::new(SemaphoreOwner::Semaphore, owner, span)
    }

    fn new(owner: SemaphoreOwner, owner_span: QuietSpan, span: QuietSpan) -> Self {
        Self(Some(OwnedSemaphore {
            owner,
            owner_span,
            span,
        }))
    }

    /// Starts the operation `source`.
    pub(crate) fn start_acquire(&self, source: &'static str) -> AcquireSpans {
        let start = |of: &OwnedSemaphore| {
            // A semaphore shows the attributes of the one inside it; a lock has its own.
            let inherits = matches!(of.owner, SemaphoreOwner::Semaphore);
            AcquireOp {
                of: of.clone(),
                op: Arc::new(op_spans!(
                    of.owner_span,
                    "tokio::sync::batch_semaphore",
                    source,
                    inherits_child_attrs = inherits
                )),
                has_waited: AtomicBool::new(false),
            }
        };
        AcquireSpans(self.0.as_ref().map(start))
    }

    /// Reports permits that were acquired outside a poll.
    pub(crate) fn acquired(&self, count: usize) {
        if let Some(of) = &self.0 {
            quietly(|| of.acquired(count)); // Q2
        }
    }

    /// Reports permits that were released.
    pub(crate) fn released(&self, count: usize) {
        if let Some(of) = &self.0 {
            // Q2
            quietly(|| {
                of.span.scope(|| update!(permits = count, permits.op = "add"));
                of.owner_span.scope(|| of.owner.update_released(count));
            });
        }
    }
}

impl OwnedSemaphore {
    fn acquired(&self, count: usize) {
        self.span.scope(|| update!(permits = count, permits.op = "sub"));
        self.owner_span.scope(|| self.owner.update_acquired(count));
    }
}

fn semaphore_span(permits: usize, location: &'static Location<'static>) -> QuietSpan {
    let span = resource_span!(
        location,
        "tokio::sync::batch_semaphore",
        concrete_type = "Semaphore",
        kind = "Sync",
        is_internal = true
    );
    span.scope(|| update!(permits = permits, permits.op = "override"));
    span
}

/// The spans of an operation.
#[derive(Debug)]
struct OpSpans {
    op: QuietSpan,
    poll: QuietSpan,
}

impl OpSpans {
    fn obtained(&self, count: usize) {
        self.op.scope(|| {
            trace!(
                target: "runtime::resource::async_op::state_update",
                permits_obtained = count,
                permits_obtained.op = "add",
            );
        });
    }

    fn enter<'a>(&'a self, resource: &'a QuietSpan) -> EnteredOp<'a> {
        let _resource = resource.enter();
        let _op = self.op.enter();
        let _poll = self.poll.enter();
        EnteredOp {
            _poll,
            _op,
            _resource,
        }
    }
}

/// The spans of an operation that is being polled. They are left in this order.
pub(crate) struct EnteredOp<'a> {
    _poll: Option<Entered<'a>>,
    _op: Option<Entered<'a>>,
    _resource: Option<Entered<'a>>,
}

fn report_poll(op_name: &'static str, is_ready: bool) {
    trace!(target: "runtime::resource::poll_op", op_name, is_ready);
}

/// The spans of one acquire.
pub(crate) struct AcquireSpans(Option<AcquireOp>);

struct AcquireOp {
    of: OwnedSemaphore,
    op: Arc<OpSpans>,
    /// Whether it has had to wait, and has said so. Only its polls use this; it is atomic so that
    /// the future is `Sync`.
    has_waited: AtomicBool,
}

impl AcquireSpans {
    /// Enters the spans, for a poll.
    pub(crate) fn enter(&self) -> Option<EnteredOp<'_>> {
        let acquire = self.0.as_ref()?;
        Some(acquire.op.enter(&acquire.of.owner_span))
    }

    /// Reports a poll.
    pub(crate) fn polled(&self, is_ready: bool) {
        let Some(acquire) = &self.0 else { return };
        report_poll("poll_acquire", is_ready);
        if !is_ready && !acquire.has_waited.swap(true, Relaxed) {
            let none: usize = 0; // it takes all of them when they are granted
            let update = || update!(permits = none, permits.op = "sub");
            acquire.of.span.scope(update);
        }
    }

    /// The operation, for its waiter.
    pub(crate) fn waiter_op(&self) -> WaiterOp {
        WaiterOp(self.0.as_ref().map(|acquire| acquire.op.clone()))
    }

    /// Reports permits that the operation has acquired, which the caller can give back.
    pub(crate) fn acquired(&self, count: usize) {
        if let Some(acquire) = &self.0 {
            acquire.of.acquired(count);
            // Otherwise the thread that granted them has reported it.
            if !acquire.has_waited.load(Relaxed) {
                acquire.op.obtained(count);
            }
        }
    }
}

/// The operation of a waiter in a queue. To clone it calls no subscriber.
#[derive(Clone)]
pub(crate) struct WaiterOp(Option<Arc<OpSpans>>);

impl WaiterOp {
    pub(crate) const NONE: Self = Self(None);
}

/// The operations that were granted permits, to be reported without a lock (Q1).
pub(crate) struct GrantedOps(Vec<(Arc<OpSpans>, usize)>);

impl GrantedOps {
    pub(crate) const NONE: Self = Self(Vec::new());

    pub(crate) fn push(&mut self, op: WaiterOp, count: usize) {
        self.0.extend(op.0.map(|op| (op, count)));
    }

    /// Reports them. The waiters have their permits, and were woken.
    pub(crate) fn report(self) {
        let report = || self.0.iter().for_each(|(op, count)| op.obtained(*count));
        match thread::panicking() {
            false => report(),
            true => quietly(report), // a second panic would abort the process
        }
    }
}

/// The span of a barrier.
pub(crate) struct BarrierSpan {
    _span: QuietSpan,
}

impl BarrierSpan {
    #[track_caller]
    pub(crate) fn new(size: usize) -> Self {
        let location = Location::caller();
        let span =
            resource_span!(location, "tokio::sync::barrier", concrete_type = "Barrier", kind = "Sync");
        span.scope(|| {
            update!(size = size);
            update!(arrived = 0);
        });
        Self { _span: span }
    }
}

/// The span of a oneshot channel, as its sender has it; `None` once it has sent.
#[derive(Default)]
pub(crate) struct SenderSpan(Option<QuietSpan>);

impl SenderSpan {
    #[track_caller]
    pub(crate) fn new() -> Self {
        let span = resource_span!(
            Location::caller(),
            "tokio::sync::oneshot",
            concrete_type = "Sender|Receiver",
            kind = "Sync"
        );
        span.scope(|| update!(tx_dropped = false, tx_dropped.op = "override"));
        span.scope(|| update!(rx_dropped = false, rx_dropped.op = "override"));
        span.scope(|| update!(value_sent = false, value_sent.op = "override"));
        span.scope(|| update!(value_received = false, value_received.op = "override"));
        Self(Some(span))
    }

    pub(crate) fn receiver(&self) -> ReceiverSpans {
        let resource = self.0.clone().unwrap_or(QuietSpan::NONE);
        let op = op_spans!(resource, "tokio::sync::oneshot", source = "Receiver::await");
        ReceiverSpans(Arc::new(ReceiveOp { resource, op }))
    }

    /// Reports that the value was sent, which is the end of the sender.
    pub(crate) fn sent(&self) {
        self.update(|| update!(value_sent = true, value_sent.op = "override"));
        self.dropped();
    }

    pub(crate) fn dropped(&self) {
        self.update(|| update!(tx_dropped = true, tx_dropped.op = "override"));
    }

    fn update(&self, update: fn()) {
        if let Some(span) = &self.0 {
            quietly(|| span.scope(update)); // Q2
        }
    }
}

/// The spans of a oneshot channel and of its receive.
#[derive(Clone)]
pub(crate) struct ReceiverSpans(Arc<ReceiveOp>);

struct ReceiveOp {
    resource: QuietSpan,
    op: OpSpans,
}

impl ReceiverSpans {
    pub(crate) fn enter(&self) -> EnteredOp<'_> {
        self.0.op.enter(&self.0.resource)
    }

    /// Reports a poll, after which nothing can be lost (Q2).
    pub(crate) fn polled(&self, is_ready: bool) {
        quietly(|| report_poll("poll_recv", is_ready));
    }

    pub(crate) fn received(&self) {
        self.update(|| update!(value_received = true, value_received.op = "override"));
    }

    pub(crate) fn dropped(&self) {
        self.update(|| update!(rx_dropped = true, rx_dropped.op = "override"));
    }

    fn update(&self, update: fn()) {
        quietly(|| self.0.resource.scope(update)); // Q2
    }
}

/// The spans of a timer.
#[derive(Clone, Debug)]
pub struct SleepSpans(Arc<SleepOp>);

#[derive(Debug)]
struct SleepOp {
    op: OpSpans,
    resource: QuietSpan,
}

impl SleepSpans {
    /// Creates the spans of a timer, and of waiting for it.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "`Default` does not know the caller")]
    pub fn new() -> Self {
        let location = Location::caller();
        let resource =
            resource_span!(location, "tokio::time::sleep", concrete_type = "Sleep", kind = "timer");
        let parent = |span: &QuietSpan| span.0.as_ref().and_then(Span::id);
        let op = QuietSpan::new(trace_span!(
            target: "tokio::time::sleep",
            parent: parent(&resource),
            "runtime.resource.async_op",
            source = "Sleep::new_timeout",
        ));
        let poll = QuietSpan::new(trace_span!(
            target: "tokio::time::sleep",
            parent: parent(&op),
            "runtime.resource.async_op.poll",
        ));
        Self(Arc::new(SleepOp {
            op: OpSpans { op, poll },
            resource,
        }))
    }

    /// Enters all of them.
    pub fn enter(&self) -> impl Sized {
        self.0.op.enter(&self.0.resource)
    }

    /// Reports a poll.
    pub fn polled(&self, is_ready: bool) {
        report_poll("poll_elapsed", is_ready);
    }

    /// Reports for how long the timer is armed.
    pub fn armed(&self, duration: impl FnOnce() -> Duration) {
        let millis = duration().as_millis() as u64;
        update!(duration = millis, duration.unit = "ms", duration.op = "override");
    }
}
