//! The platforms, what each needs to be built, and what runs its programs on x86_64 Linux.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use super::binfmt::Namespace;
use crate::sh::{self, Context, Outcome};
use crate::toolchain;

#[derive(Debug)]
pub(crate) struct Platform {
    pub(crate) name: &'static str,
    /// The compiler's name of it, or `None` for this machine's.
    pub(crate) triple: Option<&'static str>,
    pub(crate) about: &'static str,
    /// Debian packages.
    packages: &'static [&'static str],
    linker: Option<&'static str>,
    rustflags: &'static str,
    /// The flags if the standard library is built, too.
    build_std_rustflags: &'static str,
    runner: Runner,
}

/// What runs the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    /// The processor and the kernel themselves.
    Native,
    /// qemu-user, by the name of its program.
    Qemu(&'static str),
    Wine,
}

/// GNU's linker takes several times as long, and there are some two hundred executables.
const LLD: &str = "-Clink-arg=-fuse-ld=lld";

pub(crate) static PLATFORMS: [Platform; 6] = [
    POLL,
    Platform {
        name: "i686",
        triple: Some("i686-unknown-linux-gnu"),
        about: "Linux, 32 bits",
        packages: &["gcc-12-multilib", "libc6-dev-i386", "lld"],
        linker: None,
        rustflags: LLD,
        build_std_rustflags: "",
        runner: Runner::Native,
    },
    Platform {
        name: "musl",
        triple: Some("x86_64-unknown-linux-musl"),
        about: "Linux with musl, linked statically",
        packages: &["musl-tools", "lld"],
        linker: None,
        rustflags: LLD,
        // The start files are those of Debian's package.
        build_std_rustflags: "-Clinker=musl-gcc -Clink-self-contained=no",
        runner: Runner::Native,
    },
    Platform {
        name: "aarch64",
        triple: Some("aarch64-unknown-linux-gnu"),
        about: "Linux on ARM, 64 bits",
        packages: &[
            "gcc-aarch64-linux-gnu",
            "libc6-dev-arm64-cross",
            "lld",
            "qemu-user",
        ],
        linker: Some("aarch64-linux-gnu-gcc"),
        // So that programs find the libraries whatever their environment: qemu looks for them below
        // a folder that a variable names, and a child may not have it.
        rustflags: "-Clink-arg=-fuse-ld=lld \
            -Clink-arg=-Wl,--dynamic-linker=/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1 \
            -Clink-arg=-Wl,-rpath=/usr/aarch64-linux-gnu/lib",
        build_std_rustflags: "",
        runner: Runner::Qemu("qemu-aarch64"),
    },
    Platform {
        name: "armv7",
        triple: Some("armv7-unknown-linux-gnueabihf"),
        about: "Linux on ARM, 32 bits",
        packages: &[
            "gcc-arm-linux-gnueabihf",
            "libc6-dev-armhf-cross",
            "lld",
            "qemu-user",
        ],
        linker: Some("arm-linux-gnueabihf-gcc"),
        rustflags: "-Clink-arg=-fuse-ld=lld \
            -Clink-arg=-Wl,--dynamic-linker=/usr/arm-linux-gnueabihf/lib/ld-linux-armhf.so.3 \
            -Clink-arg=-Wl,-rpath=/usr/arm-linux-gnueabihf/lib",
        build_std_rustflags: "",
        runner: Runner::Qemu("qemu-arm"),
    },
    Platform {
        name: "windows",
        triple: Some("x86_64-pc-windows-gnu"),
        about: "Windows, 64 bits",
        packages: &[
            "gcc-mingw-w64-x86-64-posix",
            "binutils-mingw-w64-x86-64",
            "lld",
            "wine",
            "wine64",
        ],
        linker: Some("x86_64-w64-mingw32-gcc-posix"),
        rustflags: LLD,
        build_std_rustflags: "-Clink-self-contained=no",
        runner: Runner::Wine,
    },
];

/// The poller of Unix systems that have neither epoll nor kqueue.
const POLL: Platform = Platform {
    name: "poll",
    triple: None,
    about: "Linux with mio's poller over poll(2)",
    packages: &[],
    linker: None,
    rustflags: "--cfg mio_unsupported_force_poll_poll",
    build_std_rustflags: "",
    runner: Runner::Native,
};

/// Where qemu runs programs, once it is needed.
static NAMESPACE: Mutex<Option<Namespace>> = Mutex::new(None);

/// It takes some ten seconds.
const BOOT_LIMIT: Duration = Duration::from_secs(300);

/// wine 8 lacks the library from which std takes random numbers.
const PROCESS_PRNG: &str = "\
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length) {
    while (length > 0) {
        ULONG part = length > 0x10000 ? 0x10000 : (ULONG) length;
        if (!SystemFunction036(bytes, part)) return FALSE;
        bytes += part;
        length -= part;
    }
    return TRUE;
}
";

/// GCC's unwinder asks glibc for the frames of an address. With musl, the list of loaded objects
/// has the answer.
const DL_FIND_OBJECT: &str = "\
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdint.h>
struct dl_find_object {
    unsigned long long flags;
    void *map_start, *map_end, *link_map, *eh_frame;
    unsigned long long reserved[7];
};
struct search { uintptr_t pc; struct dl_find_object *found; };
static int look(struct dl_phdr_info *info, size_t size, void *data) {
    struct search *search = data;
    struct dl_find_object *found = search->found;
    int holds = 0;
    (void) size;
    found->eh_frame = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && search->pc - start < part->p_memsz) {
            holds = 1;
            found->map_start = (void *) start;
            found->map_end = (void *) (start + part->p_memsz);
        }
        if (part->p_type == PT_GNU_EH_FRAME) found->eh_frame = (void *) start;
    }
    return holds && found->eh_frame;
}
int _dl_find_object(void *pc, struct dl_find_object *found) {
    struct search search = {(uintptr_t) pc, found};
    return dl_iterate_phdr(look, &search) ? 0 : -1;
}
";

impl Platform {
    /// The platform of that name or triple.
    pub(crate) fn find(name: &str) -> Outcome<&'static Self> {
        let found = PLATFORMS
            .iter()
            .find(|platform| platform.name == name || platform.triple == Some(name));
        found.ok_or_else(|| {
            let names: Vec<&str> = PLATFORMS.iter().map(|platform| platform.name).collect();
            format!("there is no platform `{name}`, only {}", names.join(", ")).into()
        })
    }

    /// The folder for build output.
    pub(crate) fn target(&self) -> PathBuf {
        sh::target().join("platforms").join(self.name)
    }

    /// Installs the packages that are missing, and makes what else its programs need.
    pub(crate) fn prepare(&self) -> Outcome {
        let missing: Vec<&str> = self
            .packages
            .iter()
            .copied()
            .filter(|package| !toolchain::is_installed(package))
            .collect();
        if !missing.is_empty() {
            toolchain::install(&missing)?;
        }
        fs::create_dir_all(self.target()).context("making a folder")?;
        if self.name == "musl" && self.builds_std() {
            self.make_unwinder()?;
        }
        match self.runner {
            Runner::Native => Ok(()),
            Runner::Qemu(_) => {
                self.link_lld()?;
                let mut namespace = NAMESPACE.lock().expect("nobody panics with it");
                if namespace.is_none() {
                    *namespace = Some(Namespace::new()?);
                }
                Ok(())
            }
            Runner::Wine => self.prepare_wine(),
        }
    }

    /// std links the unwinder of LLVM with musl. GCC's has the same functions.
    fn make_unwinder(&self) -> Outcome {
        let mut find = Command::new("gcc");
        let unwinder = sh::read(find.arg("-print-file-name=libgcc_eh.a"))?;
        let copy = self.target().join("libunwind.a");
        fs::copy(unwinder.trim(), &copy).context(unwinder.trim())?;
        let source = self.target().join("dl_find_object.c");
        fs::write(&source, DL_FIND_OBJECT).context(source.display())?;
        let object = source.with_extension("o");
        let mut compile = Command::new("musl-gcc");
        compile.args(["-O1", "-fPIC", "-c", "-o"]);
        sh::run(compile.arg(&object).arg(&source))?;
        sh::run(Command::new("ar").arg("r").arg(&copy).arg(&object))
    }

    /// ARM's gcc looks for lld only in folders that `-B` names, and for every other tool of the
    /// linker there, too: so this folder has nothing but lld.
    fn link_lld(&self) -> Outcome {
        let link = self.lld_folder().join("ld.lld");
        if link.exists() {
            return Ok(());
        }
        fs::create_dir_all(self.lld_folder()).context("making a folder")?;
        symlink("/usr/bin/ld.lld", &link).context(link.display())
    }

    fn lld_folder(&self) -> PathBuf {
        self.target().join("lld")
    }

    /// Makes a folder with an empty Windows, and adds the library that it lacks.
    fn prepare_wine(&self) -> Outcome {
        let system = self.wine_prefix().join("drive_c/windows/system32");
        if !system.exists() {
            let mut boot = Command::new("wine");
            boot.args(["wineboot", "--init"]);
            self.set_run_environment(&mut boot);
            let log = self.target().join("wineboot.log");
            let ended = sh::run_for(&mut boot, BOOT_LIMIT, &log)?;
            if !ended.is_success() {
                return Err(format!("wineboot {ended}; see {}", log.display()).into());
            }
        }
        let source = self.target().join("process_prng.c");
        fs::write(&source, PROCESS_PRNG).context(source.display())?;
        let mut compile = Command::new("x86_64-w64-mingw32-gcc-posix");
        compile
            .args(["-shared", "-O1", "-o"])
            .arg(system.join("bcryptprimitives.dll"))
            .arg(&source)
            .arg("-ladvapi32");
        sh::run(&mut compile)
    }

    fn wine_prefix(&self) -> PathBuf {
        self.target().join("wine")
    }

    /// A cargo that builds for the platform, in `dir`: with the standard library, unless the
    /// compiler has it.
    pub(crate) fn cargo(&self, dir: &Path, subcommand: &str) -> Outcome<Command> {
        let builds_std = self.builds_std();
        let mut command = match builds_std {
            false => sh::cargo(),
            true => toolchain::build_std_cargo()?,
        };
        command.current_dir(dir).arg(subcommand);
        let mut rustflags = self.rustflags.to_owned();
        if self.is_emulated() {
            rustflags += &format!(" -Clink-arg=-B{}", self.lld_folder().display());
        }
        if builds_std {
            command.arg("-Zbuild-std");
            // The lints of another toolchain do not matter here.
            rustflags += &format!(
                " {} --cap-lints=warn -Lnative={}",
                self.build_std_rustflags,
                self.target().display()
            );
        }
        if let Some(triple) = self.triple {
            command.args(["--target", triple]);
            if let Some(linker) = self.linker {
                let variable = triple.replace('-', "_").to_uppercase();
                command.env(format!("CARGO_TARGET_{variable}_LINKER"), linker);
            }
        }
        command
            .env("RUSTFLAGS", rustflags.trim())
            .env("CARGO_TARGET_DIR", self.target())
            // Nothing is built twice.
            .env("CARGO_INCREMENTAL", "0")
            // Debug information would double the size of the folder.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_TEST_DEBUG", "0");
        Ok(command)
    }

    /// Whether the standard library has to be built, since neither the compiler nor rustup has it.
    fn builds_std(&self) -> bool {
        self.triple
            .is_some_and(|triple| !toolchain::provide_std(triple))
    }

    /// The words before a command that take it to where the programs run, in the folder `dir`.
    pub(crate) fn entry(&self, dir: &Path) -> Vec<String> {
        match &*NAMESPACE.lock().expect("nobody panics with it") {
            Some(namespace) if self.is_emulated() => namespace.entry(dir),
            _ => Vec::new(),
        }
    }

    /// The word before the path of a program that runs it.
    pub(crate) fn runner(&self) -> Option<&'static str> {
        match self.runner {
            Runner::Native => None,
            Runner::Qemu(program) => Some(program),
            Runner::Wine => Some("wine"),
        }
    }

    /// A command that runs `program` in the folder `dir`.
    pub(crate) fn command(&self, program: &Path, dir: &Path) -> Command {
        let mut words = self.entry(dir);
        words.extend(self.runner().map(str::to_owned));
        words.push(program.display().to_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(dir);
        self.set_run_environment(&mut command);
        command
    }

    /// Sets the variables that the runner needs.
    pub(crate) fn set_run_environment(&self, command: &mut Command) {
        match self.runner {
            Runner::Native | Runner::Qemu(_) => {}
            Runner::Wine => {
                command
                    .env("WINEPREFIX", self.wine_prefix())
                    .env("WINEDEBUG", "-all")
                    .env("WINEDLLOVERRIDES", "mscoree,mshtml=")
                    .env("DISPLAY", "");
            }
        }
    }

    /// Ends what [`prepare`](Self::prepare) or the programs have started.
    pub(crate) fn end_runner(&self) {
        match self.runner {
            Runner::Native => {}
            Runner::Qemu(_) => {
                drop(NAMESPACE.lock().expect("nobody panics with it").take());
            }
            Runner::Wine => {
                let mut kill = Command::new("wineserver");
                self.set_run_environment(&mut kill);
                // It may have ended by itself.
                toolchain::succeeds(kill.arg("-k"));
            }
        }
    }

    /// Whether the processor is emulated, which makes programs many times slower.
    pub(crate) fn is_emulated(&self) -> bool {
        matches!(self.runner, Runner::Qemu(_))
    }

    /// Whether tests can be run as another user.
    pub(crate) fn has_users(&self) -> bool {
        self.runner != Runner::Wine
    }

    /// Whether it has io_uring, or could have.
    pub(crate) fn may_have_ring(&self) -> bool {
        !matches!(self.name, "i686" | "armv7" | "windows")
    }

    /// What runs its programs, as a table says it.
    pub(crate) fn runner_name(&self) -> &'static str {
        match self.runner {
            Runner::Native => "this machine",
            Runner::Qemu(_) => "qemu-user",
            Runner::Wine => "wine",
        }
    }
}
