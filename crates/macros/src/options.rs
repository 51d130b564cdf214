//! The options of `#[main]` and `#[test]`.

use proc_macro::{Ident, Span, TokenStream, TokenTree};

use crate::cursor::{Cursor, Ended, peel, sole_token};
use crate::error::{Error, Result};

/// Which runtime runs the function.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Flavor {
    CurrentThread,
    MultiThread,
    Local,
}

/// Where an attribute comes from, and so what it may ask for.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    /// The crate whose runtime is built, unless `crate = "…"` says another.
    pub(crate) krate: &'static str,
    /// `main` or `test`.
    pub(crate) attribute: &'static str,
    pub(crate) default_flavor: Flavor,
    /// Whether the multi-thread runtime is compiled in.
    pub(crate) has_multi_thread: bool,
}

pub(crate) struct Options {
    pub(crate) flavor: Flavor,
    pub(crate) worker_threads: Option<TokenStream>,
    pub(crate) start_paused: Option<TokenStream>,
    pub(crate) unhandled_panic: Option<TokenStream>,
    pub(crate) name: Option<TokenStream>,
    pub(crate) krate: Option<TokenStream>,
}

const KNOWN: &str =
    "`flavor`, `worker_threads`, `start_paused`, `crate`, `unhandled_panic`, `name`";

/// An option as it was written.
struct Given {
    key: Ident,
    value: TokenTree,
}

impl Options {
    pub(crate) fn parse(input: TokenStream, origin: Origin) -> Result<Self> {
        let given = Given::parse_all(input)?;
        let find = |key: &str| given.iter().find(|option| option.key.to_string() == key);
        let worker_threads = find("worker_threads");
        let flavor = flavor(find("flavor"), worker_threads, origin)?;
        if let Some(threads) = worker_threads
            && flavor != Flavor::MultiThread
        {
            return Err(threads.wants_flavor("multi_thread", origin));
        }
        let unhandled_panic = find("unhandled_panic");
        if let Some(unhandled_panic) = unhandled_panic
            && flavor == Flavor::MultiThread
        {
            return Err(unhandled_panic.wants_flavor("current_thread", origin));
        }
        Ok(Self {
            flavor,
            worker_threads: worker_threads.map(Given::integer).transpose()?,
            start_paused: find("start_paused").map(Given::bool).transpose()?,
            unhandled_panic: unhandled_panic.map(Given::unhandled_panic).transpose()?,
            name: find("name").map(Given::name).transpose()?,
            krate: find("crate").map(Given::path).transpose()?,
        })
    }
}

fn flavor(given: Option<&Given>, worker_threads: Option<&Given>, origin: Origin) -> Result<Flavor> {
    let Some(given) = given else {
        let span = worker_threads.map_or_else(Span::call_site, |threads| threads.key.span());
        return match origin.default_flavor {
            Flavor::MultiThread if !origin.has_multi_thread => Err(Error::new(
                span,
                "the default runtime flavor is `multi_thread`, but the `rt-multi-thread` \
                 feature is disabled",
            )),
            default => Ok(default),
        };
    };
    match given.text()?.as_str() {
        "current_thread" => Ok(Flavor::CurrentThread),
        "local" => Ok(Flavor::Local),
        "multi_thread" if origin.has_multi_thread => Ok(Flavor::MultiThread),
        "multi_thread" => {
            Err(given
                .wrong("the runtime flavor `multi_thread` requires the `rt-multi-thread` feature"))
        }
        "single_thread" | "basic_scheduler" => {
            Err(given.wrong("this runtime flavor is called `current_thread`"))
        }
        "threaded_scheduler" => Err(given.wrong("this runtime flavor is called `multi_thread`")),
        other => Err(given.wrong(format!(
            "no such runtime flavor `{other}`: the flavors are `current_thread`, `local` and \
             `multi_thread`"
        ))),
    }
}

impl Given {
    fn parse_all(input: TokenStream) -> Result<Vec<Self>> {
        let mut input = Cursor::new(input);
        let mut all = Vec::<Self>::new();
        while !input.is_empty() {
            let option = Self::parse(&mut input)?;
            let key = option.key.to_string();
            if all.iter().any(|earlier| earlier.key.to_string() == key) {
                return Err(Error::new(
                    option.key.span(),
                    format!("`{key}` set multiple times"),
                ));
            }
            all.push(option);
        }
        Ok(all)
    }

    fn parse(input: &mut Cursor) -> Result<Self> {
        let span = input.span();
        let Some(TokenTree::Ident(key)) = input.next() else {
            return Err(Error::new(span, format!("expected one of {KNOWN}")));
        };
        let name = key.to_string();
        match name.as_str() {
            "flavor" | "worker_threads" | "start_paused" | "crate" | "unhandled_panic" | "name" => {
            }
            "core_threads" => {
                return Err(Error::new(
                    key.span(),
                    "this option is called `worker_threads`",
                ));
            }
            "threaded_scheduler" | "multi_thread" => {
                return Err(Error::new(key.span(), "write `flavor = \"multi_thread\"`"));
            }
            "basic_scheduler" | "current_thread" | "single_threaded" => {
                return Err(Error::new(
                    key.span(),
                    "write `flavor = \"current_thread\"`",
                ));
            }
            _ => {
                return Err(Error::new(
                    key.span(),
                    format!("unknown option `{name}`: expected one of {KNOWN}"),
                ));
            }
        }
        if !input.take_punct('=') {
            return Err(Error::new(
                input.span(),
                format!("expected `{name} = <value>`"),
            ));
        }
        let span = input.span();
        let (value, ended) = input.expression();
        match (sole_token(value).map(peel), ended) {
            (Some(value), Ended::Comma | Ended::Input) if !matches!(value, TokenTree::Group(_)) => {
                Ok(Self { key, value })
            }
            _ => Err(Error::new(
                span,
                format!("the value of `{name}` must be a literal"),
            )),
        }
    }

    fn wrong(&self, message: impl Into<String>) -> Error {
        Error::new(self.value.span(), message)
    }

    fn wants_flavor(&self, flavor: &str, origin: Origin) -> Error {
        let Origin {
            krate, attribute, ..
        } = origin;
        Error::new(
            self.key.span(),
            format!(
                "the `{}` option requires the `{flavor}` runtime flavor: use \
                 `#[{krate}::{attribute}(flavor = \"{flavor}\")]`",
                self.key
            ),
        )
    }

    /// The value of a string literal.
    fn text(&self) -> Result<String> {
        let written = self.value.to_string();
        match written
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
        {
            Some(text) if !text.contains('\\') => Ok(text.to_owned()),
            _ => Err(self.wrong(format!(
                "the value of `{}` must be a plain string",
                self.key
            ))),
        }
    }

    fn integer(&self) -> Result<TokenStream> {
        let written = self.value.to_string().replace('_', "");
        let digits = written.strip_suffix("usize").unwrap_or(&written);
        match digits.parse::<usize>() {
            Ok(0) => Err(self.wrong(format!("`{}` may not be 0", self.key))),
            Ok(_) => Ok(self.value.clone().into()),
            Err(_) => Err(self.wrong(format!("the value of `{}` must be an integer", self.key))),
        }
    }

    fn bool(&self) -> Result<TokenStream> {
        match self.value.to_string().as_str() {
            "true" | "false" => Ok(self.value.clone().into()),
            _ => Err(self.wrong(format!("the value of `{}` must be a bool", self.key))),
        }
    }

    fn name(&self) -> Result<TokenStream> {
        match self.value.to_string().starts_with(['"', 'r']) {
            true => Ok(self.value.clone().into()),
            false => Err(self.wrong("the value of `name` must be a string")),
        }
    }

    fn path(&self) -> Result<TokenStream> {
        let invalid = || self.wrong("the value of `crate` must be a path, such as \"blitzen\"");
        let path: TokenStream = self.text()?.parse().map_err(|_| invalid())?;
        let is_path = |token: &TokenTree| match token {
            TokenTree::Ident(_) => true,
            TokenTree::Punct(sign) => matches!(sign.as_char(), ':' | '$'),
            _ => false,
        };
        let tokens: Vec<_> = path.into_iter().collect();
        if tokens.is_empty() || !tokens.iter().all(is_path) {
            return Err(invalid());
        }
        Ok(tokens
            .into_iter()
            .map(|mut token| {
                token.set_span(self.value.span());
                token
            })
            .collect())
    }

    /// The variant of `UnhandledPanic`.
    fn unhandled_panic(&self) -> Result<TokenStream> {
        let variant = match self.text()?.as_str() {
            "ignore" => "Ignore",
            "shutdown_runtime" => "ShutdownRuntime",
            other => {
                return Err(self.wrong(format!(
                    "no such unhandled panic behavior `{other}`: the behaviors are `ignore` \
                     and `shutdown_runtime`"
                )));
            }
        };
        Ok(TokenTree::from(Ident::new(variant, self.value.span())).into())
    }
}
