//! The console in a browser: one page, served on the loopback interface.
//!
//! W1. Every path begins with a random token, so that neither other users of the machine nor
//!     pages of other sites can ask for anything.
//! W2. The `Host` header must name the loopback interface: a page whose name was made to resolve
//!     to it is refused.
//! W3. The page asks nobody else for anything, which its security policy also says.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::view::View;

const PAGE: &str = include_str!("page.html");

/// How old what is shown may be, if several pages ask.
const FRESH: Duration = Duration::from_millis(400);
/// How many tasks a page is sent.
const MAX_TASKS: usize = 1_000;
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
    for stream in listener.incoming() {
        // A connection that failed concerns only its browser.
        let Ok(stream) = stream else { continue };
        let (source, token) = (source.clone(), token.clone());
        thread::spawn(move || drop(serve(stream, port, &token, &source)));
    }
    Ok(())
}

fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Answers one request.
fn serve(mut stream: TcpStream, port: u16, token: &str, source: &Mutex<Source>) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_LIMIT))?;
    stream.set_write_timeout(Some(REQUEST_LIMIT))?;
    let mut lines = BufReader::new((&stream).take(MAX_REQUEST)).lines();
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
    response.write_to(&mut stream)
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
