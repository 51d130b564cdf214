//! Reading tokens one after another, and knowing where an expression ends.
//!
//! An expression reaches to the next comma, unless that comma separates generic
//! arguments or the parameters of a closure: `<`, `>` and `|` make no groups.
//! Whether `<` compares or opens arguments depends, as for the compiler, on the token
//! before it.
//!
//! C1. After an operand, `<` and `|` are operators; elsewhere they open a path
//!     or a closure. `::<` and `as Type<` always open arguments.
//! C2. Inside arguments and closure parameters a comma separates nothing else.

use std::iter::Peekable;

use proc_macro::token_stream::IntoIter;
use proc_macro::{Delimiter, Punct, Spacing, Span, TokenStream, TokenTree};

/// The rest of a token stream.
pub(crate) struct Cursor {
    rest: Peekable<IntoIter>,
    last: Span,
}

/// The token that ends an expression.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Ended {
    Comma,
    FatArrow,
    Input,
}

impl Cursor {
    pub(crate) fn new(tokens: TokenStream) -> Self {
        Self {
            rest: tokens.into_iter().peekable(),
            last: Span::call_site(),
        }
    }

    pub(crate) fn peek(&mut self) -> Option<&TokenTree> {
        self.rest.peek()
    }

    pub(crate) fn next(&mut self) -> Option<TokenTree> {
        let token = self.rest.next()?;
        self.last = token.span();
        Some(token)
    }

    pub(crate) fn is_empty(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Where to point: the next token, or the last one if there is none.
    pub(crate) fn span(&mut self) -> Span {
        let last = self.last;
        self.peek().map_or(last, TokenTree::span)
    }

    pub(crate) fn peek_ident(&mut self, name: &str) -> bool {
        matches!(self.peek(), Some(TokenTree::Ident(ident)) if ident.to_string() == name)
    }

    pub(crate) fn peek_punct(&mut self, char: char) -> bool {
        self.peek().is_some_and(|token| is_punct(token, char))
    }

    /// Takes the next token if it is this identifier.
    pub(crate) fn take_ident(&mut self, name: &str) -> bool {
        self.peek_ident(name) && self.next().is_some()
    }

    /// Takes the next token if it is this punctuation character.
    pub(crate) fn take_punct(&mut self, char: char) -> bool {
        self.peek_punct(char) && self.next().is_some()
    }

    /// Takes the next token if it is a block, also one that came through
    /// another macro as a fragment.
    pub(crate) fn take_block(&mut self) -> Option<TokenStream> {
        let token = self.rest.next_if(is_block)?;
        self.last = token.span();
        Some(token.into())
    }

    /// Everything that is left.
    pub(crate) fn into_rest(self) -> TokenStream {
        self.rest.collect()
    }

    /// An expression and what ended it, which is taken too.
    pub(crate) fn expression(&mut self) -> (TokenStream, Ended) {
        let mut expression = TokenStream::new();
        let mut nesting = Nesting::default();
        while let Some(token) = self.next() {
            if let TokenTree::Punct(punct) = &token {
                if punct.as_char() == ',' && nesting.is_outside() {
                    return (expression, Ended::Comma);
                }
                if punct.as_char() == '='
                    && punct.spacing() == Spacing::Joint
                    && self.take_punct('>')
                {
                    return (expression, Ended::FatArrow);
                }
            }
            nesting.pass(&token);
            expression.extend([token]);
        }
        (expression, Ended::Input)
    }
}

pub(crate) fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}

fn is_block(token: &TokenTree) -> bool {
    matches!(peel(token.clone()), TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// The token inside the invisible groups that a fragment of another macro comes
/// in.
pub(crate) fn peel(token: TokenTree) -> TokenTree {
    match &token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            sole_token(group.stream()).map_or(token, peel)
        }
        _ => token,
    }
}

/// The token, if there is just one.
pub(crate) fn sole_token(tokens: TokenStream) -> Option<TokenTree> {
    let mut tokens = tokens.into_iter();
    let first = tokens.next()?;
    tokens.next().is_none().then_some(first)
}

/// Words after which an expression starts anew.
const PREFIX_WORDS: &[&str] = &[
    "return", "break", "in", "move", "async", "static", "if", "while", "match", "else", "as",
    "yield", "let", "mut", "const", "unsafe",
];

/// The kind of the last token, which decides what `<` and `|` mean.
#[derive(Default, Clone, Copy, PartialEq)]
enum Before {
    /// Nothing, an operator, or a word that wants an operand.
    #[default]
    Prefix,
    /// Something that has a value or names a type.
    Operand,
    /// `::`
    Path,
}

/// How deep a scan is in generic arguments and closure parameters.
#[derive(Default)]
struct Nesting {
    before: Before,
    arguments: u32,
    in_parameters: bool,
    /// After `as` or `->`, where only a type can stand.
    in_type: bool,
    /// The last token, if it is punctuation joined to the next one.
    joint: Option<char>,
}

impl Nesting {
    fn is_outside(&self) -> bool {
        self.arguments == 0 && !self.in_parameters
    }

    fn pass(&mut self, token: &TokenTree) {
        match token {
            TokenTree::Punct(punct) => self.pass_punct(punct),
            TokenTree::Ident(word) => {
                let word = word.to_string();
                self.in_type |= word == "as";
                self.operand(PREFIX_WORDS.contains(&word.as_str()));
            }
            TokenTree::Group(group) => {
                self.in_type &= group.delimiter() != Delimiter::Brace;
                self.operand(false);
            }
            TokenTree::Literal(_) => self.operand(false),
        }
    }

    fn operand(&mut self, wants_another: bool) {
        self.joint = None;
        self.before = match wants_another {
            true => Before::Prefix,
            false => Before::Operand,
        };
    }

    fn pass_punct(&mut self, punct: &Punct) {
        let char = punct.as_char();
        let joint = self.joint.take();
        if punct.spacing() == Spacing::Joint {
            self.joint = Some(char);
        }
        let opens = self.before != Before::Operand || self.in_type;
        match char {
            // Part of an arrow, which closes nothing.
            '>' if matches!(joint, Some('-' | '=')) => {
                self.in_type |= joint == Some('-');
                self.before = Before::Prefix;
            }
            '<' if self.arguments > 0 => self.arguments += 1,
            // The second half of a shift.
            '<' if joint == Some('<') => self.before = Before::Prefix,
            '<' if opens => self.arguments = 1,
            '>' if self.arguments > 0 => {
                self.arguments -= 1;
                self.before = Before::Operand;
            }
            // Inside generic arguments no other punctuation matters.
            _ if self.arguments > 0 => {}
            '|' if self.in_parameters => {
                self.in_parameters = false;
                self.in_type = false;
                self.before = Before::Prefix;
            }
            // The second half of `||` between operands.
            '|' if joint == Some('|') => self.before = Before::Prefix,
            '|' if self.before != Before::Operand => {
                self.in_parameters = true;
                self.before = Before::Prefix;
            }
            ':' => {
                // A single colon in closure parameters precedes a type.
                self.in_type = self.in_type || (joint != Some(':') && self.in_parameters);
                self.before = match joint {
                    Some(':') => Before::Path,
                    _ => Before::Prefix,
                };
            }
            '?' | '\'' => self.in_type &= char == '\'',
            _ => {
                self.in_type &= self.before != Before::Operand;
                self.before = Before::Prefix;
            }
        }
    }
}
