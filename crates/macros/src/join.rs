//! What `join!` and `try_join!` expand to.
//!
//! ```text
//! {
//!     let mut futures = (maybe_done(a), maybe_done(b));
//!     poll_fn(|cx| poll those that are not done; all done: take the outputs).await
//! }
//! ```
//!
//! J1. Each poll starts one future later than the poll before, unless `biased`:
//!     a future that uses up the task's budget cannot keep it from the others.
//! J2. The futures live in one tuple that is pinned where it stands: only the
//!     closure touches it, by reference, until it is dropped.

use proc_macro::{TokenStream, TokenTree};

use crate::template::{Template, index, number, numbered};

/// What ends the wait besides every output.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum JoinUntil {
    AllDone,
    FirstError,
}

/// Where a poll starts.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum JoinOrder {
    Rotating,
    Biased,
}

/// `futures` holds a parenthesised expression for each future.
pub(crate) fn expand(
    krate: TokenStream,
    futures: TokenStream,
    order: JoinOrder,
    until: JoinUntil,
) -> TokenStream {
    let support = Template::new("$krate::macros::support")
        .fill("krate", krate)
        .build();
    let futures: Vec<_> = futures
        .into_iter()
        .map(|future| match future {
            TokenTree::Group(group) => group.stream(),
            other => other.into(),
        })
        .collect();
    let outputs = match until {
        JoinUntil::AllDone => "($outputs)",
        JoinUntil::FirstError => "$support::Result::Ok(($outputs))",
    };
    let join = Join {
        support,
        futures,
        order,
        until,
    };
    let outputs = Template::new(outputs)
        .fill("support", join.support.clone())
        .fill("outputs", join.outputs())
        .build();
    if join.futures.is_empty() {
        return outputs;
    }
    join.expand(outputs)
}

struct Join {
    support: TokenStream,
    futures: Vec<TokenStream>,
    order: JoinOrder,
    until: JoinUntil,
}

impl Join {
    fn expand(&self, outputs: TokenStream) -> TokenStream {
        Template::new(
            "{
                $futures
                let mut futures = ($members);
                let futures = &mut futures;
                $state
                $support::poll_fn(move |cx| {
                    let mut waiting = false;
                    $polls
                    match waiting {
                        true => $support::Poll::Pending,
                        false => $support::Poll::Ready($outputs),
                    }
                }).await
            }",
        )
        .fill_own("support", self.support.clone())
        .fill("futures", self.each("let $local = $future;"))
        .fill(
            "members",
            self.each("$support::maybe_done($support::into_future($local)),"),
        )
        .fill(
            "state",
            match self.order {
                JoinOrder::Rotating => crate::template::tokens("let mut first = 0u32;"),
                JoinOrder::Biased => TokenStream::new(),
            },
        )
        .fill("polls", self.polls())
        .fill("outputs", outputs)
        .build()
    }

    /// `text` once for each future.
    fn each(&self, text: &str) -> TokenStream {
        self.futures
            .iter()
            .enumerate()
            .map(|(position, future)| {
                Template::new(text)
                    .at(future)
                    .fill_own("support", self.support.clone())
                    .fill_own("local", numbered("future", position))
                    .fill_own("index", index(position))
                    .fill_own("number", number(position))
                    .fill("future", future.clone())
                    .build()
            })
            .collect()
    }

    fn polls(&self) -> TokenStream {
        // SAFETY of what is generated: J2.
        let poll = match self.until {
            JoinUntil::AllDone => {
                "{
                    let future = unsafe { $support::Pin::new_unchecked(&mut futures.$index) };
                    waiting |= future.poll_done(cx).is_pending();
                }"
            }
            JoinUntil::FirstError => {
                "{
                    let future = unsafe { $support::Pin::new_unchecked(&mut futures.$index) };
                    match future.poll_ok(cx) {
                        $support::Poll::Pending => waiting = true,
                        $support::Poll::Ready($support::Result::Ok(())) => {}
                        $support::Poll::Ready($support::Result::Err(error)) => {
                            return $support::Poll::Ready($support::Result::Err(error));
                        }
                    }
                }"
            }
        };
        if self.order == JoinOrder::Biased {
            return self.each(poll);
        }
        Template::new(
            "let start = first;
            first = if start + 1 < $count { start + 1 } else { 0 };
            for step in 0..$count {
                let turn = start + step;
                match if turn < $count { turn } else { turn - $count } {
                    $arms
                    _ => {}
                }
            }",
        )
        .fill("count", number(self.futures.len()))
        .fill("arms", self.each(&format!("$number => {poll}")))
        .build()
    }

    fn outputs(&self) -> TokenStream {
        // SAFETY of what is generated: J2.
        self.each(match self.until {
            JoinUntil::AllDone => {
                "unsafe { $support::Pin::new_unchecked(&mut futures.$index) }.take_output(),"
            }
            JoinUntil::FirstError => {
                "unsafe { $support::Pin::new_unchecked(&mut futures.$index) }.take_ok(),"
            }
        })
    }
}
