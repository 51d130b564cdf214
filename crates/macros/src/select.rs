//! What `select!` and `select_owned!` expand to.
//!
//! ```text
//! {
//!     enum __BlitzenSelect<T0, T1> { B0(T0), B1(T1), Disabled }
//!     let output = {
//!         preconditions, futures
//!         poll_fn(|cx| poll them, from a random one on).await
//!     };                                  // every future is dropped here
//!     match output { B0(pattern) => handler, … }
//! }
//! ```
//!
//! S1. Preconditions are evaluated before any future expression, and both
//!     outside the polling closure: `return`, `?` and `.await` in them, and
//!     `break` in a handler, mean what they mean around the call.
//! S2. No future is alive when a handler runs.
//! S3. A pattern stands twice in the expansion, word for word: in a guarded arm
//!     that is never taken and so moves nothing out of the output, which asks
//!     whether the output matches; and in the arm that binds.
//! S4. The futures live in one tuple that is pinned where it stands: only the
//!     closure touches it, by reference, until it is dropped.

use proc_macro::TokenStream;

use crate::branches::{Branch, Branches};
use crate::error::Result;
use crate::template::{Template, index, number, numbered, tokens};

/// Whether a branch may be a future that belongs to somebody else.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Ownership {
    Any,
    Owned,
}

pub(crate) fn expand(
    krate: TokenStream,
    input: TokenStream,
    ownership: Ownership,
) -> Result<TokenStream> {
    let call = Branches::parse(input)?;
    if call.branches.is_empty() {
        let otherwise = call.otherwise.unwrap_or_default();
        return Ok(Template::new("match () { () => $otherwise }")
            .fill("otherwise", otherwise)
            .build());
    }
    let support = Template::new("$krate::macros::support")
        .fill("krate", krate)
        .build();
    let select = Select {
        support,
        call,
        ownership,
    };
    Ok(select.expand())
}

struct Select {
    support: TokenStream,
    call: Branches,
    ownership: Ownership,
}

impl Select {
    fn expand(&self) -> TokenStream {
        Template::new(
            "{
                enum __BlitzenSelect<$parameters> { $variants Disabled }
                #[allow(unused_mut)]
                let mut output = {
                    let mut disabled: $mask = 0;
                    $preconditions
                    $futures
                    let mut futures = ($members);
                    let futures = &mut futures;
                    #[allow(unreachable_code, unused_variables, unused_mut)]
                    let select = $support::poll_fn(move |cx| {
                        match $support::poll_budget_available(cx) {
                            $support::Poll::Ready(()) => {}
                            $support::Poll::Pending => return $support::Poll::Pending,
                        }
                        let mut waiting = false;
                        $polls
                        match waiting {
                            true => $support::Poll::Pending,
                            false => $support::Poll::Ready(__BlitzenSelect::Disabled),
                        }
                    });
                    select.await
                };
                match output {
                    $arms
                    __BlitzenSelect::Disabled => $otherwise,
                    #[allow(unreachable_patterns)]
                    _ => $support::pattern_no_longer_matches(),
                }
            }",
        )
        .fill_own("support", self.support.clone())
        .fill("mask", self.mask())
        .fill("parameters", self.each("$parameter,"))
        .fill("variants", self.each("$variant($parameter),"))
        .fill("preconditions", self.preconditions())
        .fill("futures", self.futures())
        .fill("members", self.each("$support::into_future($local),"))
        .fill("polls", self.polls())
        .fill(
            "arms",
            self.each("__BlitzenSelect::$variant($pattern) => $handler,"),
        )
        .fill("otherwise", self.otherwise())
        .build()
    }

    /// The smallest word with a bit for each branch.
    fn mask(&self) -> TokenStream {
        tokens(match self.call.branches.len() {
            0..=8 => "u8",
            9..=16 => "u16",
            17..=32 => "u32",
            _ => "u64",
        })
    }

    /// `text` once for each branch.
    fn each(&self, text: &str) -> TokenStream {
        self.each_branch(|_| text)
    }

    /// What `text` chooses for each branch.
    fn each_branch<S: AsRef<str>>(&self, text: impl Fn(&Branch) -> S) -> TokenStream {
        self.call
            .branches
            .iter()
            .enumerate()
            .map(|(position, branch)| {
                Template::new(text(branch).as_ref())
                    .at(&branch.future)
                    .fill_own("support", self.support.clone())
                    .fill_own("parameter", numbered("T", position))
                    .fill_own("variant", numbered("B", position))
                    .fill_own("local", numbered("future", position))
                    .fill_own("index", index(position))
                    .fill_own("number", number(position))
                    .fill("pattern", branch.pattern.clone())
                    .fill("handler", branch.handler.clone())
                    .fill("future", branch.future.clone())
                    .fill(
                        "precondition",
                        branch.precondition.clone().unwrap_or_default(),
                    )
                    .build()
            })
            .collect()
    }

    fn preconditions(&self) -> TokenStream {
        self.each_branch(|branch| match branch.precondition {
            Some(_) => "if !($precondition) { disabled |= 1 << $index; }",
            None => "",
        })
    }

    /// A `let` for each expression, so that a temporary it borrows lives on.
    fn futures(&self) -> TokenStream {
        self.each(match self.ownership {
            Ownership::Any => "let $local = $future;",
            Ownership::Owned => {
                "let $local = $future;
                {
                    use $support::owned_branch::{IsBorrowed as _, IsOwned as _};
                    $support::owned_branch::require((&$support::owned_branch::Branch::of(&$local)).ownership());
                }"
            }
        })
    }

    /// The futures in their order, or from a random one on.
    fn polls(&self) -> TokenStream {
        if self.call.is_biased || self.call.branches.len() == 1 {
            return self.each_branch(poll);
        }
        Template::new(
            "let start = $support::thread_rng_n($count);
            for step in 0..$count {
                let turn = start + step;
                match if turn < $count { turn } else { turn - $count } {
                    $arms
                    _ => {}
                }
            }",
        )
        .fill_own("support", self.support.clone())
        .fill("count", number(self.call.branches.len()))
        .fill(
            "arms",
            self.each_branch(|branch| format!("$number => {}", poll(branch))),
        )
        .build()
    }

    fn otherwise(&self) -> TokenStream {
        match &self.call.otherwise {
            Some(handler) => handler.clone(),
            None => Template::new("$support::all_branches_disabled()")
                .fill_own("support", self.support.clone())
                .build(),
        }
    }
}

/// One look at one branch: a single block.
///
/// The `break` beside the output is of the type `!`, so that a future whose
/// output nothing else determines, because it never ends, has one by default.
fn poll(branch: &Branch) -> &'static str {
    match branch.pattern.to_string().as_str() {
        "_" => {
            "'branch: {
                if disabled & (1 << $index) != 0 {
                    break 'branch;
                }
                // SAFETY: S4.
                let future = unsafe { $support::Pin::new_unchecked(&mut futures.$index) };
                let output = match $support::Future::poll(future, cx) {
                    $support::Poll::Ready(output) => output,
                    $support::Poll::Pending => {
                        waiting = true;
                        break 'branch;
                    }
                };
                return $support::Poll::Ready(__BlitzenSelect::$variant(output));
            }"
        }
        _ => {
            "'branch: {
                if disabled & (1 << $index) != 0 {
                    break 'branch;
                }
                // SAFETY: S4.
                let future = unsafe { $support::Pin::new_unchecked(&mut futures.$index) };
                let mut output = match $support::Future::poll(future, cx) {
                    $support::Poll::Ready(output) => output,
                    $support::Poll::Pending => {
                        waiting = true;
                        break 'branch;
                    }
                };
                let mut matches = false;
                match output {
                    $pattern if { matches = true; false } => $support::never_taken(),
                    _ => {}
                }
                if matches {
                    return $support::Poll::Ready(__BlitzenSelect::$variant(output));
                }
                disabled |= 1 << $index;
            }"
        }
    }
}
