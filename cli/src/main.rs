//! `blitzen`: looks into programs that run on blitzen.
//!
//! ```text
//!   args.rs       what is asked for
//!   client.rs     the socket of a program: finding it, asking it
//!   timeline.rs   events as shares of time
//!   view.rs       what is shown, computed from the answers
//!   report.rs     one-shot commands: top, dump, trace, list
//!   terminal.rs   the console in a terminal
//!   web.rs        the console in a browser
//!   grpc.rs       the command that shows a program to tokio-console
//! ```

#[cfg(unix)]
mod args;
#[cfg(unix)]
mod client;
#[cfg(unix)]
mod grpc;
#[cfg(unix)]
mod report;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod timeline;
#[cfg(unix)]
mod view;
#[cfg(unix)]
mod web;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    use args::Command;

    let command = match args::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(why) => {
            eprintln!("blitzen: {why}\n\n{}", args::USAGE);
            return 2.into();
        }
    };
    let done = match &command {
        Command::Help => report::print(args::USAGE),
        Command::List => report::list(),
        Command::Console { program } => terminal::run(program),
        Command::Web { program, port } => web::run(program, *port),
        Command::Grpc { program, address } => grpc::run(program, address),
        Command::Top { program, period } => report::top(program, *period),
        Command::Dump { program, as_json } => report::dump(program, *as_json),
        Command::Trace {
            program,
            file,
            period,
        } => report::trace(program, file, *period),
    };
    match done {
        Ok(()) => 0.into(),
        // The reader of a pipe has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => 0.into(),
        Err(error) => {
            eprintln!("blitzen: {error}");
            1.into()
        }
    }
}

#[cfg(not(unix))]
fn main() -> std::process::ExitCode {
    eprintln!("blitzen: programs have a console only on Unix systems");
    1.into()
}
