//! Token streams written as text with holes.
//!
//! What the macros generate is easier to read as Rust than as calls that build
//! tokens, and a template of one page costs users less to compile than a
//! quoting library.
//!
//! T1. Every token of the text is resolved at [`Span::mixed_site`]: its local
//!     names cannot meet those of the caller, and lints treat it as foreign.
//! T2. What fills a hole keeps its spans: it belongs to the caller.

use proc_macro::{Group, Ident, Literal, Span, TokenStream, TokenTree};

/// Rust with holes: `$name` is replaced by what was filled in for `name`.
pub(crate) struct Template {
    text: TokenStream,
    span: Span,
    holes: Vec<(&'static str, TokenStream)>,
}

impl Template {
    /// Reads `text`; a text that is no Rust is a bug of this crate.
    pub(crate) fn new(text: &str) -> Self {
        let text = text.parse().unwrap_or_else(|error| {
            panic!("a template of blitzen-macros does not parse: {error}: {text}")
        });
        Self {
            text,
            span: Span::mixed_site(),
            holes: Vec::new(),
        }
    }

    /// Has errors in the text point at these tokens of the caller; first of all.
    pub(crate) fn at(mut self, tokens: &TokenStream) -> Self {
        if let Some(first) = tokens.clone().into_iter().next() {
            self.span = Span::mixed_site().located_at(first.span());
        }
        self
    }

    /// Says what stands in place of `$name`.
    pub(crate) fn fill(mut self, name: &'static str, tokens: impl Into<TokenStream>) -> Self {
        self.holes.push((name, tokens.into()));
        self
    }

    /// The same for tokens that are no more the caller's than the text is.
    pub(crate) fn fill_own(self, name: &'static str, tokens: TokenStream) -> Self {
        let located = |mut token: TokenTree| {
            token.set_span(token.span().located_at(self.span));
            token
        };
        let tokens: TokenStream = tokens.into_iter().map(located).collect();
        self.fill(name, tokens)
    }

    /// The text with its holes filled.
    pub(crate) fn build(self) -> TokenStream {
        self.copy(self.text.clone())
    }

    fn copy(&self, text: TokenStream) -> TokenStream {
        let mut copied = TokenStream::new();
        let mut tokens = text.into_iter();
        while let Some(mut token) = tokens.next() {
            match &token {
                TokenTree::Punct(punct) if punct.as_char() == '$' => {
                    let name = tokens.next().map(|name| name.to_string());
                    copied.extend(self.hole(name.as_deref().unwrap_or_default()));
                    continue;
                }
                TokenTree::Group(group) => {
                    token = Group::new(group.delimiter(), self.copy(group.stream())).into();
                }
                _ => {}
            }
            token.set_span(self.span);
            copied.extend([token]);
        }
        copied
    }

    fn hole(&self, name: &str) -> TokenStream {
        match self.holes.iter().find(|(known, _)| *known == name) {
            Some((_, tokens)) => tokens.clone(),
            None => panic!("a template of blitzen-macros has no `${name}`"),
        }
    }
}

/// A template without holes.
pub(crate) fn tokens(text: &str) -> TokenStream {
    Template::new(text).build()
}

/// A local name of the expansion: `stem` with a number.
pub(crate) fn numbered(stem: &str, index: usize) -> TokenStream {
    TokenTree::from(Ident::new(&format!("{stem}{index}"), Span::mixed_site())).into()
}

/// A tuple index.
pub(crate) fn index(index: usize) -> TokenStream {
    let mut literal = Literal::usize_unsuffixed(index);
    literal.set_span(Span::mixed_site());
    TokenTree::from(literal).into()
}

/// A number of the type `u32`.
pub(crate) fn number(number: usize) -> TokenStream {
    let number = u32::try_from(number).expect("a macro call has fewer branches than that");
    let mut literal = Literal::u32_suffixed(number);
    literal.set_span(Span::mixed_site());
    TokenTree::from(literal).into()
}
