//! The servers that some programs need: PostgreSQL and Redis from Debian's packages, each
//! on a free port with data in a temporary folder. They end with the value that holds them.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::build;
use crate::sh::{self, Context, Outcome};
use crate::toolchain;

const NOBODY: u32 = 65_534;
const START_LIMIT: Duration = Duration::from_secs(60);

/// The servers that were started.
pub(super) struct Servers {
    dir: PathBuf,
    children: Vec<Child>,
    addresses: Vec<(&'static str, String)>,
}

impl Servers {
    /// Starts what these families need.
    pub(super) fn start(families: &[&str]) -> Outcome<Self> {
        let mut servers = Self {
            dir: std::env::temp_dir().join(format!("blitzen-ecosystem-{}", std::process::id())),
            children: Vec::new(),
            addresses: Vec::new(),
        };
        if families.contains(&"postgres") {
            servers.start_postgres()?;
        }
        if families.contains(&"redis") {
            servers.start_redis()?;
        }
        Ok(servers)
    }

    /// The environment that tells the programs where they are.
    pub(super) fn addresses(&self) -> &[(&'static str, String)] {
        &self.addresses
    }

    fn start_postgres(&mut self) -> Outcome {
        if postgres_programs().is_none() {
            toolchain::install(&["postgresql"])?;
        }
        let programs = postgres_programs().ok_or("the package postgresql has no initdb")?;
        let data = self.data_folder("postgres")?;
        let mut initdb = self.unprivileged(&programs.join("initdb"));
        initdb
            .args(["--username=postgres", "--auth=trust", "--no-sync", "-D"])
            .arg(&data);
        sh::read(&mut initdb)?;
        let port = free_port()?;
        let mut postgres = self.unprivileged(&programs.join("postgres"));
        postgres
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories=", "-c", "fsync=off"]);
        self.launch(&mut postgres, "postgres", port)?;
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        self.addresses.push(("ECOSYSTEM_POSTGRES", url));
        Ok(())
    }

    fn start_redis(&mut self) -> Outcome {
        let program = Path::new("redis-server");
        if !toolchain::succeeds(Command::new(program).arg("--version")) {
            toolchain::install(&["redis-server"])?;
        }
        let data = self.data_folder("redis")?;
        let port = free_port()?;
        let mut redis = self.unprivileged(program);
        redis
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(&data);
        self.launch(&mut redis, "redis", port)?;
        let url = format!("redis://127.0.0.1:{port}");
        self.addresses.push(("ECOSYSTEM_REDIS", url));
        Ok(())
    }

    /// Creates a folder that the server's user owns.
    fn data_folder(&self, name: &str) -> Outcome<PathBuf> {
        let data = self.dir.join(name);
        fs::create_dir_all(&data).context(data.display())?;
        if toolchain::is_root() {
            chown(&data, Some(NOBODY), Some(NOBODY)).context(data.display())?;
        }
        Ok(data)
    }

    /// A command as a user who is not root: PostgreSQL refuses to run as root.
    fn unprivileged(&self, program: &Path) -> Command {
        let mut command = if toolchain::is_root() {
            let mut command = Command::new("setpriv");
            let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
            command
                .args(user)
                .args(["--clear-groups", "--"])
                .arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(&self.dir).stdin(Stdio::null());
        command
    }

    /// Starts a server and waits until it accepts connections.
    fn launch(&mut self, command: &mut Command, name: &str, port: u16) -> Outcome {
        let log = build::folder().join(format!("{name}.log"));
        fs::create_dir_all(build::folder()).context(log.display())?;
        let out = fs::File::create(&log).context(log.display())?;
        let err = out.try_clone().context(log.display())?;
        let child = command.stdout(out).stderr(err).spawn().context(name)?;
        self.children.push(child);
        let child = self.children.last_mut().expect("just pushed");
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let ended = child.try_wait().context(name)?.is_some();
            if ended || start.elapsed() > START_LIMIT {
                return Err(format!("{name} did not start: see {}", log.display()).into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        println!("{name} listens on port {port}");
        Ok(())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Both servers end at once on SIGINT, without waiting for their clients.
            let _ = Command::new("kill")
                .args(["-INT", &child.id().to_string()])
                .stderr(Stdio::null())
                .status();
            // It fails only for a child that was waited for.
            let _ = child.wait();
        }
        // There is none without a server. What cannot be removed stays in the system's
        // temporary folder.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The folder with the programs of the newest PostgreSQL, which Debian does not put in PATH.
fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let complete = folders.filter(|bin| bin.join("initdb").exists());
    complete.max_by_key(|bin| {
        let version = bin.parent().and_then(Path::file_name);
        version.and_then(|name| name.to_str()?.parse::<u32>().ok())
    })
}

/// A port that was free a moment ago.
fn free_port() -> Outcome<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a port")?;
    Ok(listener.local_addr().context("looking for a port")?.port())
}
