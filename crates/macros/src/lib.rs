//! The procedural macros of blitzen: `#[main]`, `#[test]`, and what stands
//! behind `select!` and `join!`.
//!
//! | module | what it is |
//! |---|---|
//! | `entry` | what `#[main]` and `#[test]` expand to |
//! | `options` | their options |
//! | `function` | an `async fn`, taken apart |
//! | `select` | what `select!` expands to |
//! | `branches` | the grammar of `select!` |
//! | `join` | what `join!` and `try_join!` expand to |
//! | `cursor` | reading tokens, and where an expression ends |
//! | `template` | token streams written as text with holes |
//! | `error` | a message for the compiler to print |
//!
//! It has no dependencies: what it needs of Rust's grammar is where an
//! expression ends and what surrounds the body of a function, and every crate
//! that uses blitzen waits for this one to be compiled.

mod branches;
mod cursor;
mod entry;
mod error;
mod function;
mod join;
mod options;
mod select;
mod template;

use proc_macro::{Span, TokenStream, TokenTree};

use crate::cursor::Cursor;
use crate::join::{JoinOrder, JoinUntil};
use crate::options::{Flavor, Origin};
use crate::select::Ownership;

const MAIN: Origin = Origin {
    krate: "blitzen",
    attribute: "main",
    default_flavor: Flavor::MultiThread,
    has_multi_thread: true,
};

const TEST: Origin = Origin {
    krate: "blitzen",
    attribute: "test",
    default_flavor: Flavor::CurrentThread,
    has_multi_thread: true,
};

/// Runs an `async fn` on a runtime made for it: an ordinary function from the
/// outside.
///
/// ```
/// #[blitzen::main]
/// async fn main() {
///     let answer = blitzen::spawn(async { 42 }).await.unwrap();
///     assert_eq!(answer, 42);
/// }
/// ```
///
/// The body runs on the calling thread. What it spawns runs on the runtime's
/// workers, and is dropped when the body returns.
///
/// # Options
///
/// | option | value |
/// |---|---|
/// | `flavor` | `"multi_thread"` (the default), `"current_thread"`, or `"local"`, which allows `spawn_local` |
/// | `worker_threads` | how many workers; only with `multi_thread` |
/// | `start_paused` | `true` starts with the clock paused |
/// | `unhandled_panic` | `"ignore"` (the default) or `"shutdown_runtime"`; not with `multi_thread` |
/// | `name` | the name of the runtime |
/// | `crate` | the path of blitzen, if it goes by another name |
///
/// ```
/// #[blitzen::main(flavor = "multi_thread", worker_threads = 2)]
/// async fn main() {
///     assert!(blitzen::spawn(async { true }).await.unwrap());
/// }
/// ```
///
/// It is short for
///
/// ```
/// blitzen::runtime::Builder::new_multi_thread()
///     .worker_threads(2)
///     .enable_all()
///     .build()
///     .unwrap()
///     .block_on(async {
///         assert!(blitzen::spawn(async { true }).await.unwrap());
///     })
/// ```
///
/// Any other `async fn` will do as well, also one with arguments, and a method.
///
/// # Errors at compile time
///
/// The function must be `async`, `main` takes no arguments, and an option must
/// suit the flavor:
///
/// ```compile_fail
/// #[blitzen::main(flavor = "current_thread", worker_threads = 2)]
/// async fn main() {}
/// ```
///
/// # Panics
/// If the runtime cannot be built: the operating system refuses a thread, for
/// instance.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(options, item, MAIN)
}

/// Runs an `async fn` as a test, on a runtime of its own.
///
/// ```
/// #[blitzen::test]
/// async fn two_and_two() {
///     assert_eq!(blitzen::spawn(async { 2 + 2 }).await.unwrap(), 4);
/// }
/// ```
///
/// The options are those of [`main`](macro@main), but the default flavor is
/// `current_thread`. With `start_paused = true` time passes at once whenever
/// the test waits for it.
///
/// ```
/// #[blitzen::test(flavor = "multi_thread", worker_threads = 1)]
/// async fn on_a_worker() {
///     assert_eq!(blitzen::spawn(async { 2 + 2 }).await.unwrap(), 4);
/// }
/// ```
///
/// Other attributes of tests (`#[should_panic]`, `#[ignore]`) work as usual; a
/// second `#[test]` would run it twice and is refused.
///
/// # Panics
/// If the runtime cannot be built.
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(options, item, TEST)
}

/// [`main`](macro@main) for the crate `tokio`.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn tokio_main(options: TokenStream, item: TokenStream) -> TokenStream {
    let origin = Origin {
        krate: "tokio",
        ..MAIN
    };
    entry::expand(options, item, origin)
}

/// [`test`](macro@test) for the crate `tokio`.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn tokio_test(options: TokenStream, item: TokenStream) -> TokenStream {
    let origin = Origin {
        krate: "tokio",
        ..TEST
    };
    entry::expand(options, item, origin)
}

/// [`main`](macro@main) for the crate `tokio` without its multi-thread runtime.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn tokio_main_rt(options: TokenStream, item: TokenStream) -> TokenStream {
    let origin = Origin {
        krate: "tokio",
        has_multi_thread: false,
        ..MAIN
    };
    entry::expand(options, item, origin)
}

/// [`test`](macro@test) for the crate `tokio` without its multi-thread runtime.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn tokio_test_rt(options: TokenStream, item: TokenStream) -> TokenStream {
    let origin = Origin {
        krate: "tokio",
        has_multi_thread: false,
        ..TEST
    };
    entry::expand(options, item, origin)
}

/// [`main`](macro@main) for the crate `tokio` without a runtime: an error that says so.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn tokio_main_without_rt(_: TokenStream, _: TokenStream) -> TokenStream {
    needs_runtime("main")
}

/// [`test`](macro@test) for the crate `tokio` without a runtime: an error that says so.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn tokio_test_without_rt(_: TokenStream, _: TokenStream) -> TokenStream {
    needs_runtime("test")
}

fn needs_runtime(attribute: &str) -> TokenStream {
    let message = format!(
        "#[tokio::{attribute}] needs a runtime: enable the feature `rt` or `rt-multi-thread` of tokio"
    );
    error::Error::new(Span::call_site(), message).into_tokens()
}

/// What is left of `select!` when `macro_rules!` has added the path of blitzen.
#[doc(hidden)]
#[proc_macro]
pub fn select_expand(input: TokenStream) -> TokenStream {
    let (krate, branches) = crate_and_rest(input);
    select::expand(krate, branches, Ownership::Any).unwrap_or_else(error::Error::into_tokens)
}

/// The same for `select_owned!`.
#[doc(hidden)]
#[proc_macro]
pub fn select_owned_expand(input: TokenStream) -> TokenStream {
    let (krate, branches) = crate_and_rest(input);
    select::expand(krate, branches, Ownership::Owned).unwrap_or_else(error::Error::into_tokens)
}

/// The same for `join!`: the path, then an expression in parentheses for each
/// future.
#[doc(hidden)]
#[proc_macro]
pub fn join_expand(input: TokenStream) -> TokenStream {
    let (krate, futures) = crate_and_rest(input);
    join::expand(krate, futures, JoinOrder::Rotating, JoinUntil::AllDone)
}

/// The same for `join!(biased; …)`.
#[doc(hidden)]
#[proc_macro]
pub fn join_biased_expand(input: TokenStream) -> TokenStream {
    let (krate, futures) = crate_and_rest(input);
    join::expand(krate, futures, JoinOrder::Biased, JoinUntil::AllDone)
}

/// The same for `try_join!`.
#[doc(hidden)]
#[proc_macro]
pub fn try_join_expand(input: TokenStream) -> TokenStream {
    let (krate, futures) = crate_and_rest(input);
    join::expand(krate, futures, JoinOrder::Rotating, JoinUntil::FirstError)
}

/// The same for `try_join!(biased; …)`.
#[doc(hidden)]
#[proc_macro]
pub fn try_join_biased_expand(input: TokenStream) -> TokenStream {
    let (krate, futures) = crate_and_rest(input);
    join::expand(krate, futures, JoinOrder::Biased, JoinUntil::FirstError)
}

/// Splits `[<path>] <rest>`.
fn crate_and_rest(input: TokenStream) -> (TokenStream, TokenStream) {
    let mut input = Cursor::new(input);
    match input.next() {
        Some(TokenTree::Group(krate)) => (krate.stream(), input.into_rest()),
        _ => panic!("called only by the macros of blitzen, which name their crate first"),
    }
}
