//! tokio-postgres and sqlx against a PostgreSQL server.
#![cfg(feature = "postgres")]

use std::time::Duration;

use ecosystem::server;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{PgPool, Row};
use tokio::sync::mpsc;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, NoTls, Notification};

const SERVER: &str = "ECOSYSTEM_POSTGRES";

/// Connects; what the server announces goes to the receiver.
async fn connect() -> (Client, mpsc::UnboundedReceiver<Notification>) {
    let (client, mut connection) = tokio_postgres::connect(&server(SERVER), NoTls)
        .await
        .unwrap();
    let (sender, notifications) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(message) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message.unwrap() {
                // Not every test listens.
                let _ = sender.send(notification);
            }
        }
    });
    (client, notifications)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_are_pipelined_on_one_connection() {
    let (client, _) = connect().await;
    let square = client.prepare("SELECT $1::int8 * $1::int8").await.unwrap();
    let queries = (0..200_i64).map(|n| {
        let (client, square) = (&client, &square);
        async move {
            client
                .query_one(square, &[&n])
                .await
                .map(|row| row.get::<_, i64>(0))
        }
    });
    let squares = try_join_all(queries).await.unwrap();
    assert_eq!(squares, (0..200).map(|n| n * n).collect::<Vec<i64>>());
}

#[tokio::test]
async fn a_dropped_transaction_is_rolled_back_and_many_rows_arrive() {
    let (mut client, _) = connect().await;
    client
        .batch_execute("CREATE TEMPORARY TABLE names (id int, name text)")
        .await
        .unwrap();
    let transaction = client.transaction().await.unwrap();
    let inserted = transaction
        .execute("INSERT INTO names VALUES (1, $1)", &[&"gone"])
        .await;
    assert_eq!(inserted.unwrap(), 1);
    drop(transaction);
    let count = client
        .query_one("SELECT count(*) FROM names", &[])
        .await
        .unwrap();
    assert_eq!(count.get::<_, i64>(0), 0);

    let rows = "INSERT INTO names SELECT n, repeat('x', 1000) FROM generate_series(1, 5000) n";
    client.batch_execute(rows).await.unwrap();
    let rows = client
        .query_raw("SELECT name FROM names", [0_i32; 0])
        .await
        .unwrap();
    let lengths: Vec<usize> = rows
        .map_ok(|row| row.get::<_, &str>(0).len())
        .try_collect()
        .await
        .unwrap();
    assert_eq!(lengths, [1000; 5000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_can_be_cancelled_and_listeners_are_notified() {
    let (client, mut notifications) = connect().await;
    let cancel = client.cancel_token();
    let sleep = tokio::spawn(async move {
        let error = client
            .batch_execute("SELECT pg_sleep(600)")
            .await
            .unwrap_err();
        (client, error)
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    cancel.cancel_query(NoTls).await.unwrap();
    let (client, error) = sleep.await.unwrap();
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));

    client.batch_execute("LISTEN news").await.unwrap();
    let (other, _) = connect().await;
    other
        .batch_execute("NOTIFY news, 'first'; NOTIFY news, 'second'")
        .await
        .unwrap();
    assert_eq!(notifications.recv().await.unwrap().payload(), "first");
    assert_eq!(notifications.recv().await.unwrap().payload(), "second");
}

async fn pool(connections: u32) -> PgPool {
    let options = PgPoolOptions::new().max_connections(connections);
    options.connect(&server(SERVER)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_share_the_few_connections_of_a_pool() {
    let pool = pool(4).await;
    sqlx::query("CREATE UNLOGGED TABLE IF NOT EXISTS pooled (n bigint)")
        .execute(&pool)
        .await
        .unwrap();
    sqlx::query("TRUNCATE pooled").execute(&pool).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..60_i64 {
        let pool = pool.clone();
        tasks.spawn(async move {
            let mut transaction = pool.begin().await.unwrap();
            let insert = sqlx::query("INSERT INTO pooled VALUES ($1)").bind(n);
            insert.execute(&mut *transaction).await.unwrap();
            match n % 2 {
                0 => transaction.commit().await.unwrap(),
                _ => transaction.rollback().await.unwrap(),
            }
        });
    }
    assert_eq!(tasks.join_all().await.len(), 60);
    assert!(pool.size() <= 4);
    let row = sqlx::query("SELECT count(*), sum(n)::bigint FROM pooled")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(
        (row.get::<i64, _>(0), row.get::<i64, _>(1)),
        (30, (0..60).step_by(2).sum())
    );
    sqlx::query("DROP TABLE pooled")
        .execute(&pool)
        .await
        .unwrap();
    pool.close().await;
    assert!(pool.is_closed());
}

#[tokio::test]
async fn a_pool_that_is_exhausted_times_out_and_recovers() {
    let options = PgPoolOptions::new().max_connections(1);
    let options = options.acquire_timeout(Duration::from_millis(100));
    let pool = options.connect(&server(SERVER)).await.unwrap();
    let held = pool.acquire().await.unwrap();
    assert!(matches!(
        pool.acquire().await,
        Err(sqlx::Error::PoolTimedOut)
    ));
    drop(held);
    let one: i32 = sqlx::query_scalar("SELECT 1")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(one, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_gets_notifications_and_rows_are_streamed() {
    let pool = pool(3).await;
    let mut listener = PgListener::connect_with(&pool).await.unwrap();
    listener.listen("sqlx_news").await.unwrap();
    for n in 0..10 {
        let notify = sqlx::query("SELECT pg_notify('sqlx_news', $1)").bind(n.to_string());
        notify.execute(&pool).await.unwrap();
    }
    for n in 0..10 {
        assert_eq!(listener.recv().await.unwrap().payload(), n.to_string());
    }
    let rows = sqlx::query("SELECT n FROM generate_series(1, 10000) n").fetch(&pool);
    let sum = rows.try_fold(0_i64, |sum, row| async move {
        Ok(sum + i64::from(row.get::<i32, _>(0)))
    });
    assert_eq!(sum.await.unwrap(), 50_005_000);
}
