//! redis: a multiplexed connection, publish and subscribe, a connection manager, against a
//! Redis server.
#![cfg(feature = "redis")]

use ecosystem::server;
use futures_util::StreamExt;
use redis::aio::ConnectionManagerConfig;
use redis::{AsyncCommands, Client, RedisError, pipe};

fn client() -> Client {
    Client::open(server("ECOSYSTEM_REDIS")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_one_connection() {
    let connection = client().get_multiplexed_async_connection().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..100_u32 {
        let mut connection = connection.clone();
        tasks.spawn(async move {
            let (key, value) = (format!("shared:{n}"), "v".repeat(n as usize * 100));
            let () = connection.set(&key, &value).await.unwrap();
            let read: String = connection.get(&key).await.unwrap();
            assert!(read == value);
            let deleted: u32 = connection.del(&key).await.unwrap();
            assert_eq!(deleted, 1);
        });
    }
    assert_eq!(tasks.join_all().await.len(), 100);
}

#[tokio::test]
async fn a_pipeline_is_answered_in_order() {
    let mut connection = client().get_multiplexed_async_connection().await.unwrap();
    let mut pipeline = pipe();
    pipeline.atomic().del("counter").ignore();
    for _ in 0..50 {
        pipeline.incr("counter", 1);
    }
    let counts: Vec<u32> = pipeline.query_async(&mut connection).await.unwrap();
    assert_eq!(counts, (1..=50).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_get_what_is_published() {
    let mut subscriber = client().get_async_pubsub().await.unwrap();
    subscriber.subscribe("news").await.unwrap();
    subscriber.psubscribe("weather:*").await.unwrap();
    let publish = tokio::spawn(async {
        let mut connection = client().get_multiplexed_async_connection().await.unwrap();
        for n in 0..20 {
            let receivers: u32 = connection.publish("news", n).await.unwrap();
            assert_eq!(receivers, 1);
            let receivers: u32 = connection.publish("weather:north", n).await.unwrap();
            assert_eq!(receivers, 1);
        }
    });
    let mut messages = subscriber.on_message();
    for n in 0..20_u32 {
        for channel in ["news", "weather:north"] {
            let message = messages.next().await.unwrap();
            assert_eq!(message.get_channel_name(), channel);
            assert_eq!(message.get_payload::<u32>().unwrap(), n);
        }
    }
    publish.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_manager_reconnects_after_its_connection_was_killed() {
    let config = ConnectionManagerConfig::new().set_number_of_retries(5);
    let mut manager = client()
        .get_connection_manager_with_config(config)
        .await
        .unwrap();
    let id: u64 = redis::cmd("CLIENT")
        .arg("ID")
        .query_async(&mut manager)
        .await
        .unwrap();
    let mut other = client().get_multiplexed_async_connection().await.unwrap();
    let mut kill = redis::cmd("CLIENT");
    let killed: u32 = kill
        .arg("KILL")
        .arg("ID")
        .arg(id)
        .query_async(&mut other)
        .await
        .unwrap();
    assert_eq!(killed, 1);
    // The command that finds the connection closed may fail; one of the next ones must not.
    for _ in 0..100 {
        let answer: Result<String, RedisError> = redis::cmd("PING").query_async(&mut manager).await;
        match answer {
            Ok(answer) => {
                assert_eq!(answer, "PONG");
                break;
            }
            Err(error) => assert!(
                error.is_io_error() || error.is_connection_dropped(),
                "{error}"
            ),
        }
    }
    let new: u64 = redis::cmd("CLIENT")
        .arg("ID")
        .query_async(&mut manager)
        .await
        .unwrap();
    assert_ne!(new, id);
}

#[tokio::test]
async fn a_blocking_command_waits_for_another_connection() {
    let mut waiting = client().get_multiplexed_async_connection().await.unwrap();
    let mut pushing = client().get_multiplexed_async_connection().await.unwrap();
    let () = pushing.del("queue").await.unwrap();
    let pop = tokio::spawn(async move { waiting.blpop::<_, (String, u32)>("queue", 0.0).await });
    tokio::task::yield_now().await;
    let () = pushing.rpush("queue", 7).await.unwrap();
    assert_eq!(pop.await.unwrap().unwrap(), ("queue".to_owned(), 7));
}
