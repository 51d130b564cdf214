//! The procedural macros of blitzen: `#[main]`, `#[test]`, and the expansion of
//! `select!` and `join!`.
//!
//! ```
//! #[blitzen::main]
//! async fn main() {
//!     assert_eq!(blitzen::spawn(async { 42 }).await.unwrap(), 42);
//! }
//! ```

// | module | what it is |
// |---|---|
// | `entry` | the expansion of `#[main]` and `#[test]` |
// | `options` | their options |
// | `function` | the parts of an `async fn` |
// | `select` | the expansion of `select!` |
// | `branches` | the grammar of `select!` |
// | `join` | the expansion of `join!` and `try_join!` |
// | `cursor` | reading tokens, and where an expression ends |
// | `template` | token streams written as text with placeholders |
// | `error` | a message for the compiler to print |
//
// The crate has no dependencies, since every crate that uses blitzen waits until this
// one is compiled. Of Rust's grammar it needs to know where an expression ends, and what
// surrounds the body of a function.

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

/// Turns an `async fn` into an ordinary function that runs its body on a new runtime.
///
/// The body runs on the calling thread. Tasks that it spawns run on the workers of the
/// runtime, and are dropped when the body returns. The attribute works on any `async fn`,
/// also on methods and functions with arguments.
///
/// | option | value |
/// |---|---|
/// | `flavor` | `"multi_thread"` (default), `"current_thread"`, or `"local"`, which allows `spawn_local` |
/// | `worker_threads` | the number of workers; only for `multi_thread` |
/// | `start_paused` | `true` starts with the clock paused |
/// | `unhandled_panic` | `"ignore"` (default) or `"shutdown_runtime"`; not for `multi_thread` |
/// | `name` | the name of the runtime |
/// | `crate` | the path of blitzen, if it has another name |
///
/// It is an error at compile time if the function is not `async`, if `main` has arguments,
/// or if an option does not fit the flavor.
///
/// # Examples
///
/// ```
/// #[blitzen::main]
/// async fn main() {
///     let answer = blitzen::spawn(async { 42 }).await.unwrap();
///     assert_eq!(answer, 42);
/// }
/// ```
///
/// With options:
///
/// ```
/// #[blitzen::main(flavor = "multi_thread", worker_threads = 2)]
/// async fn main() {
///     assert!(blitzen::spawn(async { true }).await.unwrap());
/// }
/// ```
///
/// The same without the attribute:
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
/// An option that does not fit the flavor does not compile:
///
/// ```compile_fail
/// #[blitzen::main(flavor = "current_thread", worker_threads = 2)]
/// async fn main() {}
/// ```
///
/// # Panics
///
/// The function panics if the runtime cannot be built, for instance because the operating
/// system refuses a thread.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(options, item, MAIN)
}

/// Turns an `async fn` into a test that runs its body on a new runtime.
///
/// The options are those of [`main`](macro@main), but the default flavor is
/// `current_thread`. With `start_paused = true` the clock jumps ahead whenever the test
/// waits for time to pass.
///
/// Other attributes of tests, such as `#[should_panic]` and `#[ignore]`, work as usual. A
/// second `#[test]` is an error at compile time.
///
/// # Examples
///
/// ```
/// #[blitzen::test]
/// async fn two_and_two() {
///     assert_eq!(blitzen::spawn(async { 2 + 2 }).await.unwrap(), 4);
/// }
/// ```
///
/// With options:
///
/// ```
/// #[blitzen::test(flavor = "multi_thread", worker_threads = 1)]
/// async fn on_a_worker() {
///     assert_eq!(blitzen::spawn(async { 2 + 2 }).await.unwrap(), 4);
/// }
/// ```
///
/// # Panics
///
/// The test panics if the runtime cannot be built.
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

/// Expands `select!`, to whose input `macro_rules!` has added the path of blitzen.
#[doc(hidden)]
#[proc_macro]
pub fn select_expand(input: TokenStream) -> TokenStream {
    let (krate, branches) = crate_and_rest(input);
    select::expand(krate, branches, Ownership::Any).unwrap_or_else(error::Error::into_tokens)
}

/// Expands `select_owned!`.
#[doc(hidden)]
#[proc_macro]
pub fn select_owned_expand(input: TokenStream) -> TokenStream {
    let (krate, branches) = crate_and_rest(input);
    select::expand(krate, branches, Ownership::Owned).unwrap_or_else(error::Error::into_tokens)
}

/// Expands `join!`: the path, then an expression in parentheses for each future.
#[doc(hidden)]
#[proc_macro]
pub fn join_expand(input: TokenStream) -> TokenStream {
    let (krate, futures) = crate_and_rest(input);
    join::expand(krate, futures, JoinOrder::Rotating, JoinUntil::AllDone)
}

/// Expands `join!(biased; …)`.
#[doc(hidden)]
#[proc_macro]
pub fn join_biased_expand(input: TokenStream) -> TokenStream {
    let (krate, futures) = crate_and_rest(input);
    join::expand(krate, futures, JoinOrder::Biased, JoinUntil::AllDone)
}

/// Expands `try_join!`.
#[doc(hidden)]
#[proc_macro]
pub fn try_join_expand(input: TokenStream) -> TokenStream {
    let (krate, futures) = crate_and_rest(input);
    join::expand(krate, futures, JoinOrder::Rotating, JoinUntil::FirstError)
}

/// Expands `try_join!(biased; …)`.
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
