//! The commands that write something and end, for scripts.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::client::{Client, sockets};
use crate::view::View;
use blitzen_console_protocol::Dump;

/// How long a program may take to greet, to be listed by its name.
const LIST_LIMIT: Duration = Duration::from_secs(2);

/// Writes to standard output. What a program calls its tasks cannot control the terminal.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let is_harmless = |character: char| character == '\n' || !character.is_control();
    let harmless: String = text
        .chars()
        .map(|character| match is_harmless(character) {
            true => character,
            false => char::REPLACEMENT_CHARACTER,
        })
        .collect();
    io::stdout().write_all(harmless.as_bytes())
}

/// Lists the programs that have a console.
pub(crate) fn list() -> io::Result<()> {
    let mut text = String::new();
    for path in sockets() {
        let title = match Client::connect_to(&path, LIST_LIMIT) {
            Ok(client) => View::new(client.greeting).title(),
            Err(error) if error.kind() == ErrorKind::TimedOut => "does not answer".to_owned(),
            // It has ended, or is not ours.
            Err(_) => continue,
        };
        let name = path.file_name().unwrap_or_default().display();
        let _ = writeln!(text, "{name:<12} {title}");
    }
    print(&text)
}

/// Shows workers and waits over a period.
pub(crate) fn top(program: &str, period: Duration) -> io::Result<()> {
    let mut client = Client::connect(program)?;
    let mut view = View::new(client.greeting.clone());
    view.set_stats(client.ask_json("stats")?);
    thread::sleep(period);
    view.set_stats(client.ask_json("stats")?);
    view.tasks = client.ask_json("tasks")?;
    print(&top_text(&view))
}

fn top_text(view: &View) -> String {
    let mut text = format!("{}\n{}\n\n", view.title(), view.summary());
    let _ = writeln!(
        text,
        "WORKER   BUSY %    POLLS/S   AVERAGE µs  MAX ms  QUEUE  STATE    TASK"
    );
    for (index, row) in view.workers().iter().enumerate() {
        let _ = writeln!(
            text,
            "{index:>6} {:>8.1} {:>10.0} {:>12.1} {:>7.1} {:>6}  {:<8} {}",
            row.busy_percent,
            row.polls_per_second,
            row.average_poll_us,
            row.max_poll_ms,
            row.queue_depth,
            row.state,
            row.task,
        );
    }
    let _ = writeln!(text, "\n TASKS  LONGEST  WAIT FOR");
    for row in view.waits() {
        let longest = row.longest_seconds.map(|seconds| format!("{seconds} s"));
        let longest = longest.unwrap_or_default();
        let _ = writeln!(text, "{:>6} {longest:>8}  {}", row.tasks, row.thing);
    }
    text
}

/// Shows every task, and where it waits.
pub(crate) fn dump(program: &str, as_json: bool) -> io::Result<()> {
    let mut client = Client::connect(program)?;
    let bytes = client.ask("dump")?;
    if as_json {
        let mut out = io::stdout();
        out.write_all(&bytes)?;
        return out.write_all(b"\n");
    }
    let dump: Dump = serde_json::from_slice(&bytes)?;
    print(&dump_text(&dump))
}

fn dump_text(dump: &Dump) -> String {
    let mut text = match dump.tasks.len() {
        1 => "1 task\n".to_owned(),
        count => format!("{count} tasks\n"),
    };
    for task in &dump.tasks {
        let _ = writeln!(text, "{task}");
        for stack in &task.stacks {
            let _ = writeln!(text, "    {}", stack.kind);
            for frame in &stack.frames {
                let _ = writeln!(text, "      {frame}");
            }
        }
    }
    for deadlock in &dump.deadlocks {
        let tasks: Vec<_> = deadlock.tasks.iter().map(u64::to_string).collect();
        let _ = match (deadlock.kind.as_str(), deadlock.tasks.as_slice()) {
            ("futurelock", [task]) => {
                writeln!(text, "futurelock: task {task} waits for a lock of its own")
            }
            ("self-join", [task]) => writeln!(text, "deadlock: task {task} waits for its own end"),
            (_, [task]) => writeln!(text, "deadlock: task {task} waits for itself"),
            _ => writeln!(
                text,
                "deadlock: tasks {} wait for each other",
                tasks.join(", ")
            ),
        };
    }
    if dump.unresolved_stacks > 0 {
        let count = dump.unresolved_stacks;
        let _ = writeln!(
            text,
            "{count} stacks without frames: there was no time for them"
        );
    }
    text
}

/// Writes what was recorded to a file; with a period, records everything for that long first.
pub(crate) fn trace(program: &str, file: &Path, period: Option<Duration>) -> io::Result<()> {
    let mut client = Client::connect(program)?;
    if let Some(period) = period {
        client.ask("hold_trace full")?;
        thread::sleep(period);
        client.ask("hold_trace off")?;
    }
    let bytes = client.ask("trace")?;
    if file == Path::new("-") {
        return io::stdout().write_all(&bytes);
    }
    let describe =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
    create_private(file)
        .and_then(|mut out| out.write_all(&bytes))
        .map_err(describe)
}

/// Opens a file that only its owner can read, from before it has its content. Never through a link,
/// which may be somebody else's.
fn create_private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len(0)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample;

    #[test]
    fn top_has_a_line_for_each_worker_and_each_wait() {
        let text = top_text(&sample());
        assert!(
            text.contains("     0     50.0       1000        500.0"),
            "{text}"
        );
        assert!(text.contains("     1      0.0"), "{text}");
        assert!(text.contains("     2      9 s  mutex 0x10"), "{text}");
    }

    #[test]
    fn a_dump_shows_the_stacks_below_each_task() {
        let json = r#"{"tasks":[{"id":1,"name":"a","status":"idle","spawned_at":"m.rs:1:2",
            "size":8,"future":"F","wait":{"kind":"join","resource":5,"seconds":2},
            "stacks":[{"kind":"join","frames":["inner","outer"]}]}],
            "deadlocks":[{"kind":"futurelock","tasks":[1]},{"kind":"self-join","tasks":[4]},
            {"tasks":[5]},{"kind":"deadlock","tasks":[2,3]}],"unresolved_stacks":2}"#;
        let text = dump_text(&serde_json::from_str(json).unwrap());
        assert_eq!(
            text,
            "1 task\n\
             task 1 \"a\" idle: join of task 5 for 2 s (spawned at m.rs:1:2, 8 bytes, F)\n    \
             join\n      inner\n      outer\n\
             futurelock: task 1 waits for a lock of its own\n\
             deadlock: task 4 waits for its own end\n\
             deadlock: task 5 waits for itself\n\
             deadlock: tasks 2, 3 wait for each other\n\
             2 stacks without frames: there was no time for them\n"
        );
    }
}
