//! hickory-resolver against a small DNS server over UDP and TCP.
#![cfg(feature = "hickory")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

/// Header flags of a response: authoritative; truncated; name does not exist.
const ANSWER: u16 = 0x8400;
const TRUNCATED: u16 = 0x8600;
const NO_SUCH_NAME: u16 = 0x8403;

const HEADER_BYTES: usize = 12;
const TYPE_A: [u8; 2] = [0, 1];

/// The first label of the question's name, and where the question ends.
fn question(query: &[u8]) -> (String, usize) {
    let mut end = HEADER_BYTES;
    let label = query[end + 1..][..usize::from(query[end])].to_vec();
    while query[end] != 0 {
        end += 1 + usize::from(query[end]);
    }
    (String::from_utf8(label).unwrap(), end + 5) // its zero, type and class
}

/// Answers `host<n>.test` with the address 10.0.0.n, and `large.test` only over TCP.
fn respond(query: &[u8], over_tcp: bool) -> Vec<u8> {
    let (label, end) = question(query);
    let is_a = query[end - 4..end - 2] == TYPE_A;
    let (flags, address) = match (label.as_str(), label.strip_prefix("host")) {
        ("large", _) if !over_tcp => (TRUNCATED, None),
        ("large", _) => (ANSWER, Some(Ipv4Addr::new(10, 9, 9, 9))),
        (_, Some(n)) => (ANSWER, Some(Ipv4Addr::new(10, 0, 0, n.parse().unwrap()))),
        _ => (NO_SUCH_NAME, None),
    };
    let address = address.filter(|_| is_a);
    let mut response = query[..2].to_vec(); // the query's identity
    let counts = [1, u16::from(address.is_some()), 0, 0];
    for number in [flags].into_iter().chain(counts) {
        response.extend(number.to_be_bytes());
    }
    response.extend(&query[HEADER_BYTES..end]);
    if let Some(address) = address {
        response.extend([0xc0, HEADER_BYTES as u8]); // the name of the question
        response.extend([0, 1, 0, 1, 0, 0, 0, 60, 0, 4]); // type, class, time to live, length
        response.extend(address.octets());
    }
    response
}

/// Starts the server; returns a resolver that asks it, and the number of UDP queries.
async fn serve() -> (TokioResolver, Arc<AtomicUsize>) {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).await.unwrap();
    let queries = Arc::new(AtomicUsize::new(0));
    let counted = queries.clone();
    tokio::spawn(async move {
        let mut query = [0; 512];
        loop {
            let (length, from) = udp.recv_from(&mut query).await.unwrap();
            counted.fetch_add(1, Relaxed);
            udp.send_to(&respond(&query[..length], false), from)
                .await
                .unwrap();
        }
    });
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = tcp.accept().await.unwrap();
            tokio::spawn(async move {
                while let Ok(length) = stream.read_u16().await {
                    let mut query = vec![0; length.into()];
                    stream.read_exact(&mut query).await.unwrap();
                    let response = respond(&query, true);
                    stream.write_u16(response.len() as u16).await.unwrap();
                    stream.write_all(&response).await.unwrap();
                }
            });
        }
    });
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = connections.map(at_port).to_vec();
    let server = NameServerConfig::new(address.ip(), true, connections);
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    let provider = TokioRuntimeProvider::default();
    let resolver = TokioResolver::builder_with_config(config, provider)
        .build()
        .unwrap();
    (resolver, queries)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_names_are_looked_up_at_once_and_then_cached() {
    let (resolver, queries) = serve().await;
    let resolver = Arc::new(resolver);
    let look_up_all = || async {
        let mut lookups = tokio::task::JoinSet::new();
        for n in 1..=50_u8 {
            let resolver = resolver.clone();
            lookups.spawn(async move {
                let found = resolver
                    .ipv4_lookup(format!("host{n}.test."))
                    .await
                    .unwrap();
                let addresses: Vec<String> =
                    found.answers().iter().map(|a| a.data.to_string()).collect();
                assert_eq!(addresses, [format!("10.0.0.{n}")]);
            });
        }
        assert_eq!(lookups.join_all().await.len(), 50);
    };
    look_up_all().await;
    let asked = queries.load(Relaxed);
    assert!(asked >= 50);
    look_up_all().await;
    assert_eq!(
        queries.load(Relaxed),
        asked,
        "the second time it is in the cache"
    );
}

#[tokio::test]
async fn a_truncated_answer_is_asked_for_again_over_tcp() {
    let (resolver, _) = serve().await;
    let found = resolver.ipv4_lookup("large.test.").await.unwrap();
    assert_eq!(found.answers()[0].data.to_string(), "10.9.9.9");
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_an_error() {
    let (resolver, _) = serve().await;
    let error = resolver.ipv4_lookup("missing.test.").await.unwrap_err();
    assert!(error.is_nx_domain(), "{error}");
}
