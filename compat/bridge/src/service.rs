//! The gRPC service that tokio-console asks.
//!
//! Each stream has a task, which reads the model when there is a publication and its client has
//! taken what it was sent before (B3).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use console_api::instrument::instrument_server::Instrument;
use console_api::instrument::{
    InstrumentRequest, PauseRequest, PauseResponse, ResumeRequest, ResumeResponse, State,
    StateRequest, TaskDetailsRequest, Temporality, Update,
};
use console_api::tasks::TaskDetails;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::messages::{Sent, task_details};
use crate::model::Model;

/// How many messages wait for a client that does not take them.
const QUEUED_MESSAGES: usize = 4;

pub(crate) struct Service {
    model: Arc<Mutex<Model>>,
    /// Changes with each publication.
    published: watch::Sender<()>,
    is_paused: watch::Sender<bool>,
}

/// Tells clients that the model has changed.
pub(crate) struct Publisher {
    published: watch::Sender<()>,
    is_paused: watch::Sender<bool>,
}

impl Service {
    pub(crate) fn new(model: Arc<Mutex<Model>>) -> (Publisher, Self) {
        let service = Self {
            model,
            published: watch::Sender::new(()),
            is_paused: watch::Sender::new(false),
        };
        let publisher = Publisher {
            published: service.published.clone(),
            is_paused: service.is_paused.clone(),
        };
        (publisher, service)
    }
}

impl Publisher {
    /// Sends all clients what has changed, unless one of them has paused that.
    pub(crate) fn publish(&self) {
        if !*self.is_paused.borrow() {
            self.published.send_replace(());
        }
    }
}

fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

type MessageStream<T> = ReceiverStream<Result<T, Status>>;

/// Sends what `next` returns, now and whenever `changes` changes, until that is `None` or the
/// client has gone.
fn stream<C: Send + Sync + 'static, T: Send + 'static>(
    mut changes: watch::Receiver<C>,
    mut next: impl FnMut(&C) -> Option<Vec<T>> + Send + 'static,
) -> Response<MessageStream<T>> {
    let (sender, receiver) = mpsc::channel(QUEUED_MESSAGES);
    tokio::spawn(async move {
        loop {
            let Some(messages) = next(&changes.borrow_and_update()) else {
                return;
            };
            for message in messages {
                if sender.send(Ok(message)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = sender.closed() => return,
            }
        }
    });
    Response::new(ReceiverStream::new(receiver))
}

#[tonic::async_trait]
impl Instrument for Service {
    type WatchUpdatesStream = MessageStream<Update>;
    type WatchTaskDetailsStream = MessageStream<TaskDetails>;
    type WatchStateStream = MessageStream<State>;

    async fn watch_updates(
        &self,
        _: Request<InstrumentRequest>,
    ) -> Result<Response<Self::WatchUpdatesStream>, Status> {
        let (model, mut sent) = (self.model.clone(), Sent::default());
        Ok(stream(self.published.subscribe(), move |()| {
            Some(sent.updates(&lock(&model)))
        }))
    }

    async fn watch_task_details(
        &self,
        request: Request<TaskDetailsRequest>,
    ) -> Result<Response<Self::WatchTaskDetailsStream>, Status> {
        let id = request.into_inner().id.map(|id| id.id);
        let id = id.ok_or_else(|| Status::invalid_argument("which task?"))?;
        if !lock(&self.model).tasks.contains_key(&id) {
            return Err(Status::not_found("there is no such task"));
        }
        let model = self.model.clone();
        Ok(stream(self.published.subscribe(), move |()| {
            let model = lock(&model);
            let record = model.tasks.get(&id)?;
            Some(vec![task_details(&model, id, record)])
        }))
    }

    async fn watch_state(
        &self,
        _: Request<StateRequest>,
    ) -> Result<Response<Self::WatchStateStream>, Status> {
        Ok(stream(self.is_paused.subscribe(), |is_paused| {
            let temporality = match is_paused {
                false => Temporality::Live,
                true => Temporality::Paused,
            };
            Some(vec![State {
                temporality: temporality as i32,
            }])
        }))
    }

    async fn pause(&self, _: Request<PauseRequest>) -> Result<Response<PauseResponse>, Status> {
        self.is_paused.send_replace(true);
        Ok(Response::new(PauseResponse {}))
    }

    async fn resume(&self, _: Request<ResumeRequest>) -> Result<Response<ResumeResponse>, Status> {
        self.is_paused.send_replace(false);
        Ok(Response::new(ResumeResponse {}))
    }
}
