//! What is wrong with a macro's input, and where.

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// A sentence for the compiler to print under a piece of the caller's code.
pub(crate) struct Error {
    span: Span,
    message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
        }
    }

    /// `::core::compile_error! { "…" }`, spanned so that the message appears
    /// under the caller's code.
    pub(crate) fn into_tokens(self) -> TokenStream {
        let mut message = Literal::string(&self.message);
        message.set_span(self.span);
        let colon = |spacing| TokenTree::from(Punct::new(':', spacing));
        let call: [TokenTree; 8] = [
            colon(Spacing::Joint),
            colon(Spacing::Alone),
            Ident::new("core", self.span).into(),
            colon(Spacing::Joint),
            colon(Spacing::Alone),
            Ident::new("compile_error", self.span).into(),
            Punct::new('!', Spacing::Alone).into(),
            Group::new(Delimiter::Brace, TokenTree::from(message).into()).into(),
        ];
        call.into_iter()
            .map(|mut token| {
                token.set_span(self.span);
                token
            })
            .collect()
    }
}
