//! The bridge between a program that runs, this one, and the client that tokio-console is made of.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::future::poll_fn;
use std::io::{BufRead, BufReader, Cursor, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::task::Poll;
use std::time::Duration;

use blitzen::runtime::{Builder, Runtime, TraceMode};
use blitzen::sync::oneshot;
use blitzen::task::yield_now;
use console_api::field::{Name, Value};
use console_api::instrument::instrument_client::InstrumentClient;
use console_api::instrument::{
    InstrumentRequest, PauseRequest, ResumeRequest, StateRequest, TaskDetailsRequest, Temporality,
    Update,
};
use console_api::resources::Resource;
use console_api::tasks::task_details::PollTimesHistogram;
use console_api::tasks::{DurationHistogram, Stats, Task, TaskDetails};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use prost_types::Timestamp;
use tokio::time::{sleep, timeout};
use tonic::Streaming;
use tonic::transport::Channel;

/// Long enough that only what never happens runs into it.
const FOREVER: Duration = Duration::from_secs(60);

/// A folder for sockets, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("blitzen-bridge-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program to look at.
struct Program {
    runtime: Runtime,
    folder: Folder,
}

impl Program {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(2)
            .name(name)
            .enable_all()
            .console_at(folder.socket());
        let runtime = builder.build().unwrap();
        Self { runtime, folder }
    }

    /// Spawns a task; returns its id.
    fn spawn(&self, name: &str, future: impl Future<Output = ()> + Send + 'static) -> u64 {
        let _entered = self.runtime.enter();
        let task = blitzen::task::Builder::new().name(name).spawn(future);
        task.unwrap().id().to_string().parse().unwrap()
    }

    /// Waits until a task waits for a oneshot channel.
    fn wait_for_oneshot(&self, name: &str) {
        let handle = self.runtime.handle();
        loop {
            let tasks = handle.tasks();
            let waits = tasks.iter().any(|task| {
                let wait = task.wait().map(|wait| wait.kind().name());
                task.name() == Some(name) && wait == Some("oneshot")
            });
            if waits {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Whether the recorder has this mode, by the program's own answer.
    fn recorder_is(&self, mode: &str) -> bool {
        let mut stream = UnixStream::connect(self.folder.socket()).unwrap();
        stream.write_all(b"stats\n").unwrap();
        let mut stream = BufReader::new(stream);
        let (mut greeting, mut head) = (String::new(), String::new());
        stream.read_line(&mut greeting).unwrap();
        stream.read_line(&mut head).unwrap();
        let len = head.trim().strip_prefix("ok ").unwrap().parse().unwrap();
        let mut answer = vec![0; len];
        stream.read_exact(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        answer.contains(&format!(r#""trace":"{mode}""#))
    }
}

/// A bridge that runs.
struct Bridge {
    child: Child,
    address: String,
}

impl Bridge {
    fn command(socket: &Path, address: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blitzen-console-bridge"));
        command.arg(socket).arg(address);
        command
    }

    fn spawn(socket: &Path, address: &str) -> Self {
        let mut command = Self::command(socket, address);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self {
            child: command.spawn().unwrap(),
            address: String::new(),
        }
    }

    fn start(program: &Program) -> Self {
        let mut bridge = Self::spawn(&program.folder.socket(), "127.0.0.1:0");
        let line = bridge.first_line();
        let (_, rest) = line.split_once("http://").expect("an address");
        let (address, _) = rest.split_once(": run").unwrap();
        bridge.address = address.to_owned();
        bridge
    }

    /// The first line that it writes; nothing if it ends before.
    fn first_line(&mut self) -> String {
        let mut line = String::new();
        let mut output = BufReader::new(self.child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        line
    }

    /// Waits until it has ended; returns whether it succeeded, and what it has said.
    fn wait(mut self) -> (bool, String) {
        let mut text = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().success(), text)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a client has been sent.
struct Client {
    client: InstrumentClient<Channel>,
    updates: Streaming<Update>,
    metadata: HashSet<u64>,
    tasks: HashMap<u64, Task>,
    stats: HashMap<u64, Stats>,
    resources: Vec<Resource>,
}

impl Client {
    async fn connect(bridge: &Bridge) -> Self {
        let target = format!("http://{}", bridge.address);
        let mut client = InstrumentClient::connect(target).await.unwrap();
        let updates = client.watch_updates(InstrumentRequest {}).await.unwrap();
        Self {
            client,
            updates: updates.into_inner(),
            metadata: HashSet::new(),
            tasks: HashMap::new(),
            stats: HashMap::new(),
            resources: Vec::new(),
        }
    }

    async fn next(&mut self) {
        let update = timeout(FOREVER, self.updates.message()).await.unwrap();
        self.add(update.unwrap().expect("it goes on"));
    }

    fn add(&mut self, update: Update) {
        assert!(update.now.is_some());
        for new in update.new_metadata.into_iter().flat_map(|new| new.metadata) {
            self.metadata.insert(new.id.unwrap().id);
        }
        let tasks = update.task_update.unwrap_or_default();
        for task in tasks.new_tasks {
            let id = task.id.as_ref().unwrap().id;
            assert!(self.metadata.contains(&task.metadata.as_ref().unwrap().id));
            assert!(
                tasks.stats_update.contains_key(&id),
                "tokio-console needs it"
            );
            assert!(self.tasks.insert(id, task).is_none(), "it is new once");
        }
        self.stats.extend(tasks.stats_update);
        let resources = update.resource_update.unwrap_or_default();
        self.resources.extend(resources.new_resources);
    }

    /// Waits until the statistics of a task are as wanted.
    async fn wait_for(&mut self, id: u64, mut is_wanted: impl FnMut(&Stats) -> bool) -> Stats {
        loop {
            match self.stats.get(&id) {
                Some(stats) if is_wanted(stats) => return *stats,
                _ => self.next().await,
            }
        }
    }

    fn field(&self, id: u64, name: &str) -> Option<String> {
        let fields = &self.tasks[&id].fields;
        let is_it = |field: &Name| matches!(field, Name::StrName(field) if field == name);
        let field = fields
            .iter()
            .find(|field| is_it(field.name.as_ref().unwrap()))?;
        field.value.as_ref().map(Value::to_string)
    }
}

fn polls(stats: &Stats) -> u64 {
    stats.poll_stats.as_ref().unwrap().polls
}

fn decode(histogram: &DurationHistogram) -> Histogram<u64> {
    let mut bytes = Cursor::new(&histogram.raw_histogram);
    Deserializer::new().deserialize(&mut bytes).unwrap()
}

fn on_tokio(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(test);
}

/// Wakes itself in each of some polls.
async fn wake_itself(times: u32) {
    let mut left = times;
    poll_fn(|cx| match left {
        0 => Poll::Ready(()),
        _ => {
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

#[test]
fn a_known_program_is_shown_as_it_is() {
    const SELF_WAKES: u32 = 10;
    const YIELDS: u64 = 5;
    let program = Program::new("known");
    let (old_sender, old_receiver) = oneshot::channel::<()>();
    let old = program.spawn("old", async { drop(old_receiver.await) });
    program.wait_for_oneshot("old");
    let bridge = Bridge::start(&program);
    on_tokio(async {
        let mut client = Client::connect(&bridge).await;
        let stats = client.wait_for(old, |_| true).await;
        assert_eq!(polls(&stats), 1, "it waits, so it was polled");
        assert_eq!((stats.wakes, stats.waker_clones), (0, 1));
        assert!(stats.dropped_at.is_none());

        let (first_sender, first) = oneshot::channel::<()>();
        let (last_sender, last) = oneshot::channel::<()>();
        let known = async {
            wake_itself(SELF_WAKES).await;
            for _ in 0..YIELDS {
                yield_now().await;
            }
            first.await.unwrap();
            std::thread::sleep(Duration::from_millis(20)); // to be seen in the busy time
            drop(last.await);
        };
        let size = size_of_val(&known);
        let (line, known) = (line!(), program.spawn("known", known));
        program.wait_for_oneshot("known");
        first_sender.send(()).unwrap();
        // Self-wakes and yields, then a wait that is woken, then one that is not.
        let expected = u64::from(SELF_WAKES) + YIELDS + 2;
        let is_polled = |stats: &Stats| {
            let time = |time: Option<Timestamp>| time.map(|time| (time.seconds, time.nanos));
            let times = stats.poll_stats.as_ref().unwrap();
            let is_over = time(times.last_poll_started) <= time(times.last_poll_ended);
            polls(stats) >= expected && is_over
        };
        let stats = client.wait_for(known, is_polled).await;
        assert_eq!(polls(&stats), expected);
        assert_eq!(stats.self_wakes, u64::from(SELF_WAKES) + YIELDS);
        assert_eq!(stats.wakes, stats.self_wakes + 1);
        assert_eq!(stats.waker_clones - stats.waker_drops, 1, "the channel's");
        let busy = stats.poll_stats.unwrap().busy_time.unwrap();
        assert!((busy.seconds, busy.nanos) >= (0, 20_000_000), "{busy:?}");
        assert!(stats.scheduled_time.unwrap().nanos > 0);

        assert_eq!(client.field(known, "task.name").unwrap(), "known");
        assert_eq!(client.field(known, "task.id").unwrap(), known.to_string());
        assert_eq!(client.field(known, "kind").unwrap(), "task");
        assert_eq!(client.field(known, "size.bytes").unwrap(), size.to_string());
        assert!(client.field(known, "future").unwrap().contains("closure"));
        // The helper that spawns it.
        let location = client.tasks[&known].location.clone().unwrap();
        assert!(location.file.unwrap().ends_with("bridge.rs"));
        assert!(location.line.unwrap() < line && location.column.is_some());

        let request = TaskDetailsRequest {
            id: Some(known.into()),
        };
        let details = client.client.watch_task_details(request).await.unwrap();
        let details: TaskDetails = details.into_inner().message().await.unwrap().unwrap();
        let Some(PollTimesHistogram::Histogram(times)) = &details.poll_times_histogram else {
            panic!("no histogram: {details:?}");
        };
        let (times, delays) = (
            decode(times),
            decode(&details.scheduled_times_histogram.unwrap()),
        );
        assert_eq!((times.len(), delays.len()), (expected, expected));
        assert!(times.max() >= 20_000_000 && times.min() < 20_000_000);
        let unknown = TaskDetailsRequest {
            id: Some(u64::MAX.into()),
        };
        assert!(client.client.watch_task_details(unknown).await.is_err());

        drop(last_sender);
        let stats = client
            .wait_for(known, |stats| stats.dropped_at.is_some())
            .await;
        assert_eq!(polls(&stats), expected + 1);
        drop(old_sender);
        client
            .wait_for(old, |stats| stats.dropped_at.is_some())
            .await;
    });
}

#[test]
fn short_tasks_code_on_the_blocking_pool_and_locks_are_shown() {
    let program = Program::new("kinds");
    let bridge = Bridge::start(&program);
    on_tokio(async {
        let mut client = Client::connect(&bridge).await;
        let short = program.spawn("short, with a name of more bytes", async {});
        let stats = client
            .wait_for(short, |stats| stats.dropped_at.is_some())
            .await;
        assert_eq!(polls(&stats), 1);
        let name = client.field(short, "task.name").unwrap();
        assert_eq!(name, "short, with a name of more bytes");
        assert!(client.tasks[&short].location.is_some());

        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let job = program
            .runtime
            .spawn_blocking(move || receiver.recv().is_ok());
        let job: u64 = job.id().to_string().parse().unwrap();
        client.wait_for(job, |stats| polls(stats) == 1).await;
        assert_eq!(client.field(job, "kind").unwrap(), "blocking");
        drop(sender);
        client
            .wait_for(job, |stats| stats.dropped_at.is_some())
            .await;

        let mutex = std::sync::Arc::new(blitzen::sync::Mutex::new(()));
        let guard = mutex.clone().try_lock_owned().unwrap();
        program.spawn("waits", async move { drop(mutex.lock().await) });
        while client.resources.is_empty() {
            client.next().await;
        }
        assert_eq!(client.resources[0].concrete_type, "Mutex");
        drop(guard);
    });
}

#[test]
fn one_client_pauses_all_and_the_bridge_goes_on_counting() {
    let program = Program::new("pause");
    let bridge = Bridge::start(&program);
    on_tokio(async {
        let mut client = Client::connect(&bridge).await;
        let states = client.client.watch_state(StateRequest {}).await.unwrap();
        let mut states = states.into_inner();
        let live = states.message().await.unwrap().unwrap();
        assert_eq!(live.temporality(), Temporality::Live);
        client.client.pause(PauseRequest {}).await.unwrap();
        let paused = states.message().await.unwrap().unwrap();
        assert_eq!(paused.temporality(), Temporality::Paused);

        let (sender, receiver) = oneshot::channel::<()>();
        let later = program.spawn("later", async { drop(receiver.await) });
        // A new client is sent what the bridge knows now.
        loop {
            let mut other = Client::connect(&bridge).await;
            other.next().await;
            if other.tasks.contains_key(&later) {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        // What was under way before does not have it.
        while let Ok(update) = timeout(Duration::ZERO, client.updates.message()).await {
            client.add(update.unwrap().unwrap());
        }
        assert!(!client.tasks.contains_key(&later), "it is paused");
        client.client.resume(ResumeRequest {}).await.unwrap();
        let live = states.message().await.unwrap().unwrap();
        assert_eq!(live.temporality(), Temporality::Live);
        client.wait_for(later, |_| true).await;
        drop(sender);
    });
}

#[test]
fn clients_that_leave_do_not_read_or_send_garbage_disturb_no_other() {
    let program = Program::new("clients");
    let bridge = Bridge::start(&program);
    on_tokio(async {
        let mut leaves = Client::connect(&bridge).await;
        leaves.next().await;
        let mut stays = Client::connect(&bridge).await;
        let _does_not_read = Client::connect(&bridge).await;
        drop(leaves);
        for garbage in [
            &[0xff; 4096][..],
            b"GET / HTTP/1.1\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nx",
        ] {
            let mut stream = TcpStream::connect(&bridge.address).unwrap();
            // The bridge may have closed it already.
            let _ = stream.write_all(garbage);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let new = program.spawn("new", async {});
        stays
            .wait_for(new, |stats| stats.dropped_at.is_some())
            .await;
        let mut last = Client::connect(&bridge).await;
        last.wait_for(new, |_| true).await;
    });
}

#[test]
fn the_bridge_ends_with_its_program() {
    let program = Program::new("ends");
    let bridge = Bridge::start(&program);
    on_tokio(async {
        let mut client = Client::connect(&bridge).await;
        client.next().await;
        program.runtime.shutdown_background();
        while let Ok(Some(_)) = timeout(FOREVER, client.updates.message()).await.unwrap() {}
    });
    let (is_success, why) = bridge.wait();
    assert!(!is_success);
    assert_eq!(why, "blitzen-console-bridge: the program has ended\n");
}

#[test]
fn the_recorder_gets_back_its_mode_however_the_bridge_ends() {
    let program = Program::new("restored");
    program.runtime.handle().set_trace(TraceMode::Sampled);
    for signal in ["TERM", "KILL"] {
        let bridge = Bridge::start(&program);
        assert!(program.recorder_is("full"));
        let pid = bridge.child.id().to_string();
        let kill = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(kill.unwrap().success());
        assert_eq!(bridge.wait(), (signal == "TERM", String::new()));
        // The program may not have noticed yet.
        while program.recorder_is("full") {}
        assert!(program.recorder_is("sampled"));
    }
}

fn failure(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn other_addresses_than_those_of_the_loopback_interface_are_refused() {
    let program = Program::new("addresses");
    for (address, expected) in [
        ("0.0.0.0:0", "loopback"),
        ("[::]:0", "loopback"),
        ("192.0.2.1:0", "loopback"),
        ("127.0.0.1", "127.0.0.1: "),
        ("x", "x: "),
    ] {
        let mut bridge = Bridge::spawn(&program.folder.socket(), address);
        assert_eq!(bridge.first_line(), "", "it listens at {address}");
        let (is_success, why) = bridge.wait();
        assert!(
            !is_success && why.contains(address) && why.contains(expected),
            "{why}"
        );
    }
    assert!(program.recorder_is("off"));
}

#[test]
fn a_program_that_is_not_understood_is_named() {
    let folder = Folder::new("garbage");
    let why = Bridge::command(&folder.socket(), "127.0.0.1:0").output();
    assert!(failure(&why.unwrap()).contains("No such file"));
    let greeting =
        r#"{"protocol":"blitzen-console","version":1,"pid":1,"program":"x","runtime":null}"#;
    let other = greeting.replace(":1,\"pid", ":9,\"pid");
    let after = |text: &str| format!("{greeting}\n{text}").into_bytes();
    let cases = [
        (b"\xff\xfe garbage\n".to_vec(), "not understood"),
        (other.into_bytes(), "speaks blitzen-console 9"),
        (after("what?\n"), "unknown form"),
        (after("ok 99999999999999\n"), "unknown form"),
        (
            after("ok 2\n{}ok 5\n12345"),
            "not understood: the answer to \"stats\"",
        ),
        (after("ok 500\n12345"), "the program has ended"),
        (after("error 4\nbusy"), "busy"),
        (Vec::new(), "only its owner may look"),
    ];
    for (index, (bytes, expected)) in cases.into_iter().enumerate() {
        let socket = folder.0.join(index.to_string());
        let listener = UnixListener::bind(&socket).unwrap();
        let answers = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let output = Bridge::command(&socket, "127.0.0.1:0").output().unwrap();
        let why = failure(&output);
        assert!(why.contains(expected), "{index}: {why}");
        answers.join().unwrap();
    }
}
