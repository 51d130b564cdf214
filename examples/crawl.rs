//! A crawler: it follows links from page to page, some at a time, until there are no more or its
//! time is up.
//!
//! ```text
//! cargo run --release --example crawl
//! ```
//!
//! The pages come from a small server in the same program. Everything runs in one scope: the
//! server, which is a daemon, and a child for each page. When the scope returns, nobody is left.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use blitzen::channel::mpsc::{UnboundedSender, unbounded_channel};
use blitzen::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use blitzen::net::{TcpListener, TcpStream};
use blitzen::scope::Scope;
use blitzen::task;
use blitzen::time::{Instant, sleep};

/// Pages fetched at the same time.
const AT_ONCE: usize = 16;
/// Pages there are. Page `n` links to `2n + 1` and `2n + 2`.
const PAGES: usize = 200;
/// One page never answers. Its scope gives up on it.
const STUCK: usize = 150;
const PAGE_LIMIT: Duration = Duration::from_millis(500);
/// For everything.
const LIMIT: Duration = Duration::from_secs(60);

#[blitzen::main]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let start = Instant::now();
    let pages = Scope::builder()
        .name("crawl")
        .within(LIMIT)
        .at_most(AT_ONCE)
        .run(|s| async move {
            // A daemon ends when the last page has been fetched.
            s.spawn_daemon(serve(listener));
            crawl(&s, address).await
        })
        .await?;
    // Fewer if a page was late that has links.
    println!("{pages} of {PAGES} pages in {:.1?}", start.elapsed());
    Ok(())
}

/// A link that was found, and where to send those found behind it. When no link is left and no
/// child is running, nobody has a sender any more.
struct Link {
    page: usize,
    found: UnboundedSender<Link>,
}

/// Fetches all pages, each in a child of its own, and returns their number.
async fn crawl(s: &Scope<io::Error>, address: SocketAddr) -> io::Result<usize> {
    let (found, mut links) = unbounded_channel();
    let first = Link {
        page: 0,
        found: found.clone(),
    };
    // The receiver is here.
    let _ = found.send(first);
    drop(found);
    let mut seen = HashSet::new();
    while let Some(Link { page, found }) = links.recv().await {
        if !seen.insert(page) {
            continue;
        }
        s.ready().await; // at most so many at once
        s.spawn(async move {
            let fetched = Scope::builder()
                .within(PAGE_LIMIT)
                .run(|_| fetch(address, page));
            match fetched.await {
                Ok(pages) => {
                    for page in pages {
                        let found = found.clone();
                        // Fails only if the crawl is over.
                        let _ = found.clone().send(Link { page, found });
                    }
                    Ok(())
                }
                // Only this page is late, and not the whole crawl.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    println!("page {page}: {error}");
                    Ok(())
                }
                Err(error) => Err(error), // ends the crawl
            }
        });
    }
    Ok(seen.len())
}

/// Fetches a page, and returns its links.
async fn fetch(address: SocketAddr, page: usize) -> io::Result<Vec<usize>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("{page}\n").as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text.lines().filter_map(|link| link.parse().ok()).collect())
}

/// Serves pages until the scope around it is cancelled. Connections are children of a scope of
/// their own, which ends with the server.
async fn serve(listener: TcpListener) -> io::Result<()> {
    Scope::builder()
        .supervise(|failure| eprintln!("server: {failure:?}"))
        .run(|s| async move {
            while let Some(accepted) = task::unless_cancelled(listener.accept()).await {
                let (stream, _) = accepted?;
                s.spawn(answer(stream));
            }
            Ok(())
        })
        .await
}

/// Answers one request with the links of the page.
async fn answer(stream: TcpStream) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    stream.read_line(&mut request).await?;
    let Ok(page) = request.trim().parse::<usize>() else {
        return Ok(());
    };
    sleep(Duration::from_millis(1)).await;
    if page == STUCK {
        return std::future::pending().await;
    }
    let links = [2 * page + 1, 2 * page + 2].into_iter();
    let text: String = links
        .filter(|link| *link < PAGES)
        .map(|link| format!("{link}\n"))
        .collect();
    stream.write_all(text.as_bytes()).await
}
