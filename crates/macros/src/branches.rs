//! The grammar of `select!`:
//!
//! ```text
//! [biased;]
//! ( <pattern> = <future> [, if <precondition>] => <handler> , )*
//! [ else => <handler> ]
//! ```
//!
//! The comma after a handler that is a block may be left out, as in `match`.

use proc_macro::{Spacing, TokenStream, TokenTree};

use crate::cursor::{Cursor, Ended};
use crate::error::{Error, Result};

/// One future that is waited for, and what to do with its output.
pub(crate) struct Branch {
    pub(crate) pattern: TokenStream,
    pub(crate) future: TokenStream,
    pub(crate) precondition: Option<TokenStream>,
    pub(crate) handler: TokenStream,
}

/// A whole call.
pub(crate) struct Branches {
    pub(crate) is_biased: bool,
    pub(crate) branches: Vec<Branch>,
    pub(crate) otherwise: Option<TokenStream>,
}

/// As many as the mask of disabled branches has bits.
pub(crate) const MAX_BRANCHES: usize = 64;

impl Branches {
    pub(crate) fn parse(input: TokenStream) -> Result<Self> {
        let is_biased = starts_biased(&input);
        let mut input = Cursor::new(input);
        if is_biased {
            input.next();
            input.next();
        }
        let mut parsed = Self {
            is_biased,
            branches: Vec::new(),
            otherwise: None,
        };
        while !input.is_empty() {
            let span = input.span();
            let pattern = pattern(&mut input)?;
            match pattern {
                Left::Else => {
                    parsed.otherwise = Some(handler(&mut input)?);
                    if !input.is_empty() {
                        return Err(Error::new(input.span(), "`else` must be the last branch"));
                    }
                }
                Left::Pattern(pattern) => {
                    if parsed.branches.len() == MAX_BRANCHES {
                        return Err(Error::new(
                            span,
                            format!("more than {MAX_BRANCHES} branches in one `select!`"),
                        ));
                    }
                    parsed.branches.push(branch(pattern, &mut input)?);
                }
            }
        }
        if parsed.branches.is_empty() && parsed.otherwise.is_none() {
            return Err(Error::new(
                input.span(),
                "`select!` requires at least one branch",
            ));
        }
        Ok(parsed)
    }
}

fn starts_biased(input: &TokenStream) -> bool {
    let mut start = input.clone().into_iter();
    matches!(start.next(), Some(TokenTree::Ident(word)) if word.to_string() == "biased")
        && matches!(start.next(), Some(TokenTree::Punct(sign)) if sign.as_char() == ';')
}

/// What stands before the `=` or the `=>`.
enum Left {
    Pattern(TokenStream),
    Else,
}

fn pattern(input: &mut Cursor) -> Result<Left> {
    let start = input.span();
    let mut pattern = TokenStream::new();
    // Inside `..=`, where the sign separates nothing.
    let mut after_dot = false;
    while let Some(token) = input.next() {
        if let TokenTree::Punct(sign) = &token {
            if sign.as_char() == '=' && !after_dot {
                if sign.spacing() == Spacing::Alone || !input.peek_punct('>') {
                    return match pattern.is_empty() {
                        true => Err(Error::new(start, "expected a pattern before `=`")),
                        false => Ok(Left::Pattern(pattern)),
                    };
                }
                input.next();
                return match pattern.to_string().as_str() {
                    "else" => Ok(Left::Else),
                    _ => Err(Error::new(
                        start,
                        "expected `<pattern> = <future>` before `=>`",
                    )),
                };
            }
            after_dot = sign.as_char() == '.' && sign.spacing() == Spacing::Joint;
        } else {
            after_dot = false;
        }
        pattern.extend([token]);
    }
    Err(Error::new(
        start,
        "expected a branch: `<pattern> = <future> => <handler>`",
    ))
}

fn branch(pattern: TokenStream, input: &mut Cursor) -> Result<Branch> {
    let start = input.span();
    let (future, mut ended) = input.expression();
    if future.is_empty() {
        return Err(Error::new(start, "expected a future after `=`"));
    }
    let mut precondition = None;
    if ended == Ended::Comma {
        let start = input.span();
        if !input.take_ident("if") {
            return Err(Error::new(
                start,
                "expected `=>` or `, if <precondition>` after the future",
            ));
        }
        let (condition, then) = input.expression();
        if condition.is_empty() {
            return Err(Error::new(start, "expected a precondition after `if`"));
        }
        precondition = Some(condition);
        ended = then;
    }
    if ended != Ended::FatArrow {
        return Err(Error::new(input.span(), "expected `=>` and a handler"));
    }
    Ok(Branch {
        pattern,
        future,
        precondition,
        handler: handler(input)?,
    })
}

fn handler(input: &mut Cursor) -> Result<TokenStream> {
    if let Some(block) = input.take_block() {
        input.take_punct(',');
        return Ok(block);
    }
    let start = input.span();
    match input.expression() {
        (_, Ended::FatArrow) => Err(Error::new(
            start,
            "expected `,` after this handler: only a block needs none",
        )),
        (handler, _) if handler.is_empty() => {
            Err(Error::new(start, "expected a handler after `=>`"))
        }
        (handler, _) => Ok(handler),
    }
}
