//! tonic: a unary call and the three kinds of streaming. The service is written by hand on
//! tonic's codec, so that no compiler for `.proto` files is needed.
#![cfg(feature = "tonic")]

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::client::Grpc as Client;
use tonic::server::{Grpc as Server, NamedService};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

/// `message Number { uint64 value = 1; string name = 2; }`
#[derive(Clone, PartialEq, prost::Message)]
struct Number {
    #[prost(uint64, tag = "1")]
    value: u64,
    #[prost(string, tag = "2")]
    name: String,
}

fn number(value: u64) -> Number {
    Number {
        value,
        name: format!("number {value}"),
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<Number, Status>> + Send>>;

/// Doubles a number.
async fn double(request: Request<Number>) -> Result<Response<Number>, Status> {
    match request.into_inner().value {
        0 => Err(Status::invalid_argument("zero has no double")),
        value => Ok(Response::new(number(2 * value))),
    }
}

/// Counts down, from another task.
async fn count_down(request: Request<Number>) -> Result<Response<Answers>, Status> {
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        for value in (0..request.into_inner().value).rev() {
            if sender.send(Ok(number(value))).await.is_err() {
                return; // the client has gone
            }
        }
    });
    Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
}

/// Adds up what the client sends.
async fn sum(request: Request<Streaming<Number>>) -> Result<Response<Number>, Status> {
    let mut stream = request.into_inner();
    let mut sum = 0;
    while let Some(number) = stream.next().await {
        sum += number?.value;
    }
    Ok(Response::new(number(sum)))
}

/// Answers each number with its square, while the client goes on sending.
async fn squares(request: Request<Streaming<Number>>) -> Result<Response<Answers>, Status> {
    let squares = request
        .into_inner()
        .map(|n| n.map(|n| number(n.value * n.value)));
    Ok(Response::new(Box::pin(squares)))
}

/// Never answers.
async fn hang(_: Request<Number>) -> Result<Response<Number>, Status> {
    std::future::pending().await
}

#[derive(Clone)]
struct Calculator;

impl NamedService for Calculator {
    const NAME: &'static str = "test.Calculator";
}

impl tower::Service<http::Request<Body>> for Calculator {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = Server::new(ProstCodec::<Number, Number>::default());
            Ok(match request.uri().path() {
                "/test.Calculator/Double" => grpc.unary(service_fn(double), request).await,
                "/test.Calculator/CountDown" => {
                    grpc.server_streaming(service_fn(count_down), request).await
                }
                "/test.Calculator/Sum" => grpc.client_streaming(service_fn(sum), request).await,
                "/test.Calculator/Squares" => grpc.streaming(service_fn(squares), request).await,
                "/test.Calculator/Hang" => grpc.unary(service_fn(hang), request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

/// Starts a server that ends with the sender; returns a client.
async fn serve() -> (Client<Channel>, oneshot::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(async move {
        let mut server = tonic::transport::Server::builder();
        let stopped = async { drop(stopped.await) };
        let incoming = TcpListenerStream::new(listener);
        let serve = server
            .add_service(Calculator)
            .serve_with_incoming_shutdown(incoming, stopped);
        serve.await.unwrap();
    });
    let channel = Endpoint::new(url).unwrap().connect().await.unwrap();
    let mut client = Client::new(channel);
    client.ready().await.unwrap();
    (client, stop)
}

fn path(method: &str) -> PathAndQuery {
    format!("/test.Calculator/{method}").parse().unwrap()
}

fn codec() -> ProstCodec<Number, Number> {
    ProstCodec::default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unary_calls_share_a_connection_and_errors_carry_their_code() {
    let (client, _stop) = serve().await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 1..=100 {
        let mut client = client.clone();
        calls.spawn(async move {
            client.ready().await.unwrap();
            let answer = client
                .unary(Request::new(number(n)), path("Double"), codec())
                .await;
            assert_eq!(answer.unwrap().into_inner(), number(2 * n));
        });
    }
    assert_eq!(calls.join_all().await.len(), 100);

    let mut client = client;
    client.ready().await.unwrap();
    let error = client
        .unary(Request::new(number(0)), path("Double"), codec())
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::InvalidArgument, "zero has no double")
    );
    client.ready().await.unwrap();
    let error = client
        .unary(Request::new(number(1)), path("Triple"), codec())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_streams_its_answers() {
    let (mut client, _stop) = serve().await;
    let answers = client.server_streaming(Request::new(number(1000)), path("CountDown"), codec());
    let answers: Vec<Number> = answers
        .await
        .unwrap()
        .into_inner()
        .map(Result::unwrap)
        .collect()
        .await;
    assert_eq!(answers, (0..1000).rev().map(number).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_client_streams_its_requests() {
    let (mut client, _stop) = serve().await;
    let numbers = tokio_stream::iter((1..=1000).map(number));
    let answer = client.client_streaming(Request::new(numbers), path("Sum"), codec());
    assert_eq!(answer.await.unwrap().into_inner(), number(500_500));
}

#[tokio::test]
async fn both_sides_stream_and_answers_come_before_the_last_request() {
    let (mut client, _stop) = serve().await;
    let (sender, receiver) = mpsc::channel(1);
    let requests = Request::new(ReceiverStream::new(receiver));
    let answers = client.streaming(requests, path("Squares"), codec()).await;
    let mut answers: Streaming<Number> = answers.unwrap().into_inner();
    for n in 0..100 {
        sender.send(number(n)).await.unwrap();
        assert_eq!(answers.next().await.unwrap().unwrap(), number(n * n));
    }
    drop(sender);
    assert!(answers.next().await.is_none());
}

#[tokio::test]
async fn a_call_with_a_deadline_ends_and_so_does_the_server() {
    let (mut client, stop) = serve().await;
    let mut request = Request::new(number(1));
    request.set_timeout(Duration::from_millis(50));
    let error = client
        .unary(request, path("Hang"), codec())
        .await
        .unwrap_err();
    assert!(
        matches!(error.code(), Code::Cancelled | Code::DeadlineExceeded),
        "{error:?}"
    );
    stop.send(()).unwrap();
    drop(client);
}
