//! An `async fn`, taken apart as far as an entry point needs.
//!
//! ```text
//! <attributes> <before> async <between> fn <name> … -> <output> <where …> { <body> }
//! └ attributes ┘└─────────────── signature ──────────────────────────────┘
//! ```

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

use crate::cursor::{Cursor, is_punct, peel};
use crate::error::{Error, Result};

pub(crate) struct Function {
    /// With the `#` and the brackets.
    pub(crate) attributes: Vec<TokenStream>,
    /// All from the visibility to the body, without `async`.
    pub(crate) signature: TokenStream,
    pub(crate) name: Ident,
    pub(crate) arguments: Group,
    pub(crate) output: Output,
    /// `#![…]` at the start of the body.
    pub(crate) inner_attributes: TokenStream,
    /// The rest of the body, in braces.
    pub(crate) body: Group,
}

/// What the function says it returns.
pub(crate) enum Output {
    /// Nothing.
    Unit,
    /// `!`
    Never,
    /// Something with `impl`: there is no way to write this type twice.
    Unnameable,
    Type(TokenStream),
}

impl Function {
    pub(crate) fn parse(item: TokenStream) -> Result<Self> {
        let mut tokens: Vec<_> = flatten(item);
        let body = match tokens.pop().map(peel) {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => group,
            other => {
                let span = other.map_or_else(Span::call_site, |token| token.span());
                return Err(Error::new(span, "expected an `async fn` with a body"));
            }
        };
        let mut input = Cursor::new(tokens.into_iter().collect());
        let attributes = attributes(&mut input);
        let mut signature = TokenStream::new();
        let is_async = qualifiers(&mut input, &mut signature)?;
        let (keyword, name) = match (input.next(), input.next()) {
            (Some(keyword), Some(TokenTree::Ident(name))) => (keyword, name),
            _ => return Err(Error::new(input.span(), "expected an `async fn`")),
        };
        if !is_async {
            return Err(Error::new(
                keyword.span(),
                "the `async` keyword is missing from the function declaration",
            ));
        }
        signature.extend([keyword, name.clone().into()]);
        generics(&mut input, &mut signature);
        let Some(TokenTree::Group(arguments)) = input.next() else {
            return Err(Error::new(name.span(), "expected an `async fn`"));
        };
        signature.extend([TokenTree::from(arguments.clone())]);
        let rest = input.into_rest();
        signature.extend(rest.clone());
        let (inner_attributes, body) = split_inner_attributes(&body);
        Ok(Self {
            attributes,
            signature,
            name,
            arguments,
            output: output(rest),
            inner_attributes,
            body,
        })
    }
}

/// The tokens, out of the invisible group that a fragment of another macro
/// comes in.
fn flatten(item: TokenStream) -> Vec<TokenTree> {
    let tokens: Vec<_> = item.into_iter().collect();
    match tokens.as_slice() {
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::None => {
            flatten(group.stream())
        }
        _ => tokens,
    }
}

fn attributes(input: &mut Cursor) -> Vec<TokenStream> {
    let mut attributes = Vec::new();
    while input.peek_punct('#') {
        attributes.push([input.next(), input.next()].into_iter().flatten().collect());
    }
    attributes
}

/// Copies everything up to `fn` but `async`, and says whether that was there.
fn qualifiers(input: &mut Cursor, signature: &mut TokenStream) -> Result<bool> {
    let mut is_async = false;
    while !input.peek_ident("fn") {
        match input.next() {
            Some(TokenTree::Ident(word)) if word.to_string() == "async" => is_async = true,
            Some(token) => signature.extend([token]),
            None => return Err(Error::new(input.span(), "expected an `async fn`")),
        }
    }
    Ok(is_async)
}

/// Copies `<…>` if it is there.
fn generics(input: &mut Cursor, signature: &mut TokenStream) {
    let mut depth = 0;
    let mut arrow = false;
    loop {
        match input.peek() {
            Some(token) if is_punct(token, '<') => depth += 1,
            Some(token) if is_punct(token, '>') && !arrow => depth -= 1,
            _ if depth == 0 => return,
            None => return,
            Some(_) => {}
        }
        arrow = input.peek_punct('-');
        signature.extend(input.next());
        if depth == 0 {
            return;
        }
    }
}

/// Reads `-> <output> where …`.
fn output(rest: TokenStream) -> Output {
    let mut rest = Cursor::new(rest);
    if !rest.take_punct('-') || !rest.take_punct('>') {
        return Output::Unit;
    }
    let mut output = TokenStream::new();
    while !rest.is_empty() && !rest.peek_ident("where") {
        output.extend(rest.next());
    }
    match output.to_string().as_str() {
        "!" => Output::Never,
        "()" => Output::Unit,
        _ if mentions_impl(output.clone()) => Output::Unnameable,
        _ => Output::Type(output),
    }
}

fn mentions_impl(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word.to_string() == "impl",
        TokenTree::Group(group) => mentions_impl(group.stream()),
        _ => false,
    })
}

/// `#![…]` at the start of a body, and a block of all the rest.
fn split_inner_attributes(body: &Group) -> (TokenStream, Group) {
    let tokens: Vec<_> = body.stream().into_iter().collect();
    let mut length = 0;
    while let [hash, bang, TokenTree::Group(group), ..] = &tokens[length..]
        && is_punct(hash, '#')
        && is_punct(bang, '!')
        && group.delimiter() == Delimiter::Bracket
    {
        length += 3;
    }
    let rest = tokens[length..].iter().cloned().collect();
    let mut block = Group::new(Delimiter::Brace, rest);
    // Errors point at the body; lints know that these braces were not written.
    block.set_span(Span::mixed_site().located_at(body.span()));
    (tokens.into_iter().take(length).collect(), block)
}
