//! The console in a browser: one page, served on the loopback interface.
//!
//! W1. Every path begins with a random token, so that neither other users of the machine nor
//!     pages of other sites can ask for anything.
//! W2. The `Host` header must name the loopback interface: a page whose name was made to resolve
//!     to it is refused.
//! W3. The page asks nobody else for anything, which its security policy also says.
//! W4. Anybody on the machine can connect. What that can take is bounded: threads by
//!     [`MAX_CONNECTIONS`], their time by one deadline for a whole request, and one for its response.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::view::View;

const PAGE: &str = include_str!("page.html");

/// How old what is shown may be, if several pages ask.
const FRESH: Duration = Duration::from_millis(400);
/// How many tasks a page is sent.
const MAX_TASKS: usize = 1_000;
/// How many connections are served at a time. Others wait until they are accepted.
const MAX_CONNECTIONS: usize = 32;
/// How long a browser may take to read a response.
const RESPONSE_LIMIT: Duration = Duration::from_secs(30);
/// The pause after a connection that could not be accepted or served, such as for want of file
/// descriptors.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);
/// How long a browser may take to send its request, and how long that may be.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
const MAX_REQUEST: u64 = 16 << 10;

/// What is known of a program, and since when.
struct Source {
    client: Client,
    view: View,
    refreshed: Option<Instant>,
}

struct Response {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

/// Serves the page until the process is ended.
pub(crate) fn run(program: &str, port: u16) -> io::Result<()> {
    let client = Client::connect(program)?;
    let source = Arc::new(Mutex::new(Source {
        view: View::new(client.greeting.clone()),
        client,
        refreshed: None,
    }));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let port = listener.local_addr()?.port();
    let token = Arc::new(random_token()?);
    println!("http://127.0.0.1:{port}/{token}/");
    let slots = Arc::new(Slots::new(MAX_CONNECTIONS));
    loop {
        let slot = Slots::take(&slots);
        let served = listener.accept().and_then(|(stream, _)| {
            let (source, token) = (source.clone(), token.clone());
            thread::Builder::new().spawn(move || {
                // A connection that failed concerns only its browser.
                let _ = serve(&stream, REQUEST_LIMIT, port, &token, &source);
                drop(slot);
            })
        });
        if served.is_err() {
            thread::sleep(FAILURE_PAUSE);
        }
    }
}

/// How many more connections may be served (W4).
struct Slots {
    free: Mutex<usize>,
    on_free: Condvar,
}

/// The right to serve one; given back on drop.
struct Slot(Arc<Slots>);

impl Slots {
    fn new(count: usize) -> Self {
        Self {
            free: Mutex::new(count),
            on_free: Condvar::new(),
        }
    }

    /// Waits for a free one.
    fn take(this: &Arc<Self>) -> Slot {
        let free = this.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = this.on_free.wait_while(free, |free| *free == 0);
        *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        Slot(this.clone())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let free = self.0.free.lock();
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.on_free.notify_one();
    }
}

/// A connection whose reads and writes together may last until a deadline.
struct Limited<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl<'a> Limited<'a> {
    fn new(stream: &'a TcpStream, limit: Duration) -> Self {
        let deadline = Instant::now() + limit;
        Self { stream, deadline }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

impl Read for Limited<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Answers one request.
fn serve(
    stream: &TcpStream,
    limit: Duration,
    port: u16,
    token: &str,
    source: &Mutex<Source>,
) -> io::Result<()> {
    let request = Limited::new(stream, limit);
    let mut lines = BufReader::new(request.take(MAX_REQUEST)).lines();
    let request = lines.next().unwrap_or(Ok(String::new()))?;
    let mut host = None;
    for line in lines {
        let line = line?;
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("host") => {
                host = Some(value.trim().to_owned());
            }
            None if line.is_empty() => break,
            _ => {}
        }
    }
    let is_local =
        |host: &String| [format!("127.0.0.1:{port}"), format!("localhost:{port}")].contains(host);
    let response = match host.as_ref().is_some_and(is_local) {
        true => respond(&request, token, source),
        false => Response::refusal("403 Forbidden"), // W2
    };
    response.write_to(&mut Limited::new(stream, RESPONSE_LIMIT))
}

fn respond(request: &str, token: &str, source: &Mutex<Source>) -> Response {
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let rest = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    let Some(resource) = rest
        .filter(|(given, _)| is_same(given, token))
        .map(|(_, rest)| rest)
    else {
        return Response::refusal("404 Not Found"); // W1
    };
    let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
    let body = match (method, resource) {
        ("GET", "") => return Response::ok("text/html; charset=utf-8", PAGE.into()),
        ("GET", "state") => source.state(),
        ("GET", "dump") => source.client.ask("dump"),
        ("GET", "trace.pftrace") => {
            let trace = source.client.ask("trace");
            return trace.map_or_else(Response::failure, |trace| {
                Response::ok("application/octet-stream", trace)
            });
        }
        ("POST", "set_trace/off" | "set_trace/sampled" | "set_trace/full") => {
            source.client.ask(&resource.replace('/', " "))
        }
        _ => return Response::refusal("404 Not Found"),
    };
    body.map_or_else(Response::failure, |body| {
        Response::ok("application/json", body)
    })
}

/// Compares without telling by the time it takes where two texts differ.
fn is_same(given: &str, token: &str) -> bool {
    let differences = given
        .bytes()
        .zip(token.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == token.len() && differences == 0
}

impl Source {
    fn state(&mut self) -> io::Result<Vec<u8>> {
        if self.refreshed.is_none_or(|at| at.elapsed() > FRESH) {
            self.view.refresh(&mut self.client)?;
            self.refreshed = Some(Instant::now());
        }
        Ok(serde_json::to_vec(&self.view.page(MAX_TASKS))?)
    }
}

impl Response {
    fn ok(kind: &'static str, body: Vec<u8>) -> Self {
        Self {
            status: "200 OK",
            kind,
            body,
        }
    }

    fn refusal(status: &'static str) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            body: status.into(),
        }
    }

    fn failure(error: io::Error) -> Self {
        Self {
            body: error.to_string().into_bytes(),
            ..Self::refusal("502 Bad Gateway")
        }
    }

    fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        write!(
            out,
            "HTTP/1.1 {}\r\n\
             Content-Type: {}\r\n\
             Content-Length: {}\r\n\
             Content-Security-Policy: default-src 'none'; connect-src 'self'; \
             script-src 'unsafe-inline'; style-src 'unsafe-inline'\r\n\
             X-Content-Type-Options: nosniff\r\n\
             Referrer-Policy: no-referrer\r\n\
             Cache-Control: no-store\r\n\
             Connection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len()
        )?;
        out.write_all(&self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_byte_by_byte_has_one_deadline() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let sender = thread::spawn(move || {
            // Each byte comes long before the deadline, until the connection is closed.
            while client.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
        });
        let limit = Duration::from_millis(100);
        let mut request = Limited::new(&stream, limit).take(MAX_REQUEST);
        let error = io::copy(&mut request, &mut io::sink()).unwrap_err();
        let kinds = [ErrorKind::TimedOut, ErrorKind::WouldBlock];
        assert!(kinds.contains(&error.kind()), "{error}");
        drop(stream);
        sender.join().unwrap();
    }
}
