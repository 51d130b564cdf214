//! The arguments of the command.

use std::path::PathBuf;
use std::time::Duration;

pub(crate) const USAGE: &str = "\
Looks into a program that runs on blitzen, and was started with BLITZEN_CONSOLE=1.

  blitzen list                              the programs that can be looked into
  blitzen console PROGRAM                   shows what it does, in the terminal
  blitzen console PROGRAM --web [--port N]  the same in a browser on this machine
  blitzen console PROGRAM --grpc ADDRESS    shows it to tokio-console, at 127.0.0.1:6669 for
                                            instance; needs the command blitzen-console-bridge
  blitzen top PROGRAM [--for SECONDS]       workers, and what tasks wait for
  blitzen dump PROGRAM [--json]             every task, and where it waits
  blitzen trace PROGRAM FILE [--for SECONDS]
                                            what was recorded, as a file for ui.perfetto.dev;
                                            with --for, first records everything for that time

PROGRAM is the number of a process, or the path of its socket. FILE may be - for standard output.
";

/// How long `top` counts without `--for`.
const TOP_PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    List,
    Console {
        program: String,
    },
    Web {
        program: String,
        /// Zero lets the system choose.
        port: u16,
    },
    Grpc {
        program: String,
        address: String,
    },
    Top {
        program: String,
        period: Duration,
    },
    Dump {
        program: String,
        as_json: bool,
    },
    Trace {
        program: String,
        file: PathBuf,
        /// How long everything is recorded first.
        period: Option<Duration>,
    },
}

pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Command, String> {
    let (mut words, mut options) = (Vec::new(), Options::default());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "--json" => options.as_json = true,
            "--for" => options.period = Some(seconds(args.next())?),
            "--web" => options.is_web = true,
            "--port" => options.port = Some(number(args.next())?),
            "--grpc" => options.grpc = Some(args.next().ok_or("at which address?")?),
            option if option.starts_with("--") => return Err(format!("unknown option {option}")),
            _ => words.push(arg),
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let command = match words[..] {
        [] | ["help"] => Command::Help,
        ["list"] => Command::List,
        ["console", program] => {
            let program = program.to_owned();
            match (options.grpc.take(), std::mem::take(&mut options.is_web)) {
                (Some(address), false) => Command::Grpc { program, address },
                (Some(_), true) => return Err("either --web or --grpc".to_owned()),
                (None, true) => Command::Web {
                    program,
                    port: options.port.take().unwrap_or(0),
                },
                (None, false) => Command::Console { program },
            }
        }
        ["top", program] => Command::Top {
            program: program.to_owned(),
            period: options.period.take().unwrap_or(TOP_PERIOD),
        },
        ["dump", program] => Command::Dump {
            program: program.to_owned(),
            as_json: std::mem::take(&mut options.as_json),
        },
        ["trace", program, file] => Command::Trace {
            program: program.to_owned(),
            file: file.into(),
            period: options.period.take(),
        },
        ["console" | "top" | "dump"] => return Err("which program?".to_owned()),
        ["trace", ..] => return Err("which program, and which file?".to_owned()),
        [name, ..] => return Err(format!("unknown command {name:?}")),
    };
    match options == Options::default() {
        true => Ok(command),
        false => Err(format!("an option that {:?} does not have", words[0])),
    }
}

/// Options, taken by the command that they belong to.
#[derive(Default, PartialEq)]
struct Options {
    as_json: bool,
    period: Option<Duration>,
    is_web: bool,
    port: Option<u16>,
    grpc: Option<String>,
}

fn number(text: Option<String>) -> Result<u16, String> {
    let text = text.unwrap_or_default();
    text.parse().map_err(|_| format!("not a port: {text:?}"))
}

fn seconds(text: Option<String>) -> Result<Duration, String> {
    let text = text.unwrap_or_default();
    let seconds: Option<f64> = text.parse().ok();
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| format!("not a number of seconds: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn every_command_of_the_usage_is_understood() {
        let program = || "7".to_owned();
        let cases = [
            ("", Command::Help),
            ("list", Command::List),
            ("console 7", Command::Console { program: program() }),
            (
                "console --web 7 --port 80",
                Command::Web {
                    program: program(),
                    port: 80,
                },
            ),
            (
                "console 7 --grpc 127.0.0.1:6669",
                Command::Grpc {
                    program: program(),
                    address: "127.0.0.1:6669".into(),
                },
            ),
            (
                "top 7 --for 0.5",
                Command::Top {
                    program: program(),
                    period: Duration::from_millis(500),
                },
            ),
            (
                "dump 7 --json",
                Command::Dump {
                    program: program(),
                    as_json: true,
                },
            ),
            (
                "trace 7 t.pftrace --for 2",
                Command::Trace {
                    program: program(),
                    file: "t.pftrace".into(),
                    period: Some(Duration::from_secs(2)),
                },
            ),
        ];
        for (line, command) in cases {
            assert_eq!(parse_line(line), Ok(command), "{line}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "fly 7",
            "top",
            "trace 7",
            "top 7 --json",
            "console 7 --port 80",
            "console 7 --grpc",
            "console 7 --grpc 127.0.0.1:80 --web",
            "top 7 --grpc 127.0.0.1:80",
            "top 7 --for x",
            "dump 7 --loud",
        ] {
            assert!(parse_line(line).is_err(), "{line}");
        }
    }
}
