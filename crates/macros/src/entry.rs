//! What `#[main]` and `#[test]` expand to: the function without `async`, whose
//! body builds a runtime and runs the old body on it.
//!
//! The future is handed to `block_on` behind a pointer: a crate with a thousand
//! tests compiles `block_on` once.

use proc_macro::{TokenStream, TokenTree};

use crate::error::{Error, Result};
use crate::function::{Function, Output};
use crate::options::{Flavor, Options, Origin};
use crate::template::{Template, tokens};

/// Expands; a wrong use becomes an error beside the item as it was, so that
/// one mistake does not become twenty.
pub(crate) fn expand(options: TokenStream, item: TokenStream, origin: Origin) -> TokenStream {
    try_expand(options, item.clone(), origin).unwrap_or_else(|error| {
        let mut tokens = error.into_tokens();
        tokens.extend(item);
        tokens
    })
}

fn try_expand(options: TokenStream, item: TokenStream, origin: Origin) -> Result<TokenStream> {
    let function = Function::parse(item)?;
    check(&function, origin)?;
    let options = Options::parse(options, origin)?;
    let is_test = origin.attribute == "test";
    let template = Template::new(match function.output {
        // What the body must be is said next to it, so that the compiler tells
        // what is wrong with its last expression and not with the whole future.
        Output::Unit => {
            "$test $attributes $signature {
                $inner_attributes
                let body = async {
                    $body
                    #[allow(unreachable_code)]
                    {}
                };
                $run
            }"
        }
        Output::Type(_) => {
            "$test $attributes $signature {
                $inner_attributes
                let body = async {
                    #[allow(clippy::diverging_sub_expression, clippy::let_and_return)]
                    let output: $output = $body;
                    #[allow(unreachable_code)]
                    { output }
                };
                $run
            }"
        }
        Output::Unnameable => {
            "$test $attributes $signature {
                $inner_attributes
                let body = async $body;
                $run
            }"
        }
        Output::Never => {
            "$test $attributes $signature {
                $inner_attributes
                let body = async $body;
                #[allow(unreachable_code, clippy::diverging_sub_expression)]
                {
                    $run;
                    ::core::unreachable!(\"a function that never returns has returned\")
                }
            }"
        }
    });
    Ok(template
        .fill(
            "test",
            match is_test {
                true => tokens("#[::core::prelude::v1::test]"),
                false => TokenStream::new(),
            },
        )
        .fill(
            "attributes",
            function.attributes.into_iter().collect::<TokenStream>(),
        )
        .fill("signature", function.signature)
        .fill("inner_attributes", function.inner_attributes)
        .fill(
            "output",
            match function.output {
                Output::Type(output) => output,
                Output::Unit | Output::Never | Output::Unnameable => TokenStream::new(),
            },
        )
        .fill("body", TokenTree::from(function.body))
        .fill("run", run(options, origin))
        .build())
}

fn check(function: &Function, origin: Origin) -> Result<()> {
    let is_test = origin.attribute == "test";
    if !function.arguments.stream().is_empty() && (is_test || function.name.to_string() == "main") {
        return Err(Error::new(
            function.arguments.span(),
            format!("the {} function cannot accept arguments", origin.attribute),
        ));
    }
    if is_test && let Some(second) = function.attributes.iter().find(|a| is_test_attribute(a)) {
        let span = second.clone().into_iter().next().map(|hash| hash.span());
        return Err(Error::new(
            span.unwrap_or_else(|| function.name.span()),
            "second test attribute is supplied, consider removing or changing the order of \
             your test attributes",
        ));
    }
    Ok(())
}

/// `#[test]`, with or without a path of the standard library before it.
fn is_test_attribute(attribute: &TokenStream) -> bool {
    let written: String = attribute
        .to_string()
        .chars()
        .filter(|char| !char.is_whitespace())
        .collect();
    let path = written.trim_start_matches("#[").trim_end_matches(']');
    let path = path.trim_start_matches("::");
    path == "test"
        || ((path.starts_with("core::prelude::") || path.starts_with("std::prelude::"))
            && path.ends_with("::test"))
}

/// The expression that builds the runtime and runs `body`.
fn run(options: Options, origin: Origin) -> TokenStream {
    let krate = options
        .krate
        .unwrap_or_else(|| tokens(&format!("::{}", origin.krate)));
    let mut settings = TokenStream::new();
    let mut set = |text: &str, value: Option<TokenStream>| {
        if let Some(value) = value {
            settings.extend(
                Template::new(text)
                    .fill("krate", krate.clone())
                    .fill("value", value)
                    .build(),
            );
        }
    };
    set(".worker_threads($value)", options.worker_threads);
    set(".start_paused($value)", options.start_paused);
    set(
        ".unhandled_panic($krate::runtime::UnhandledPanic::$value)",
        options.unhandled_panic,
    );
    set(".name($value)", options.name);
    Template::new(
        "{
            let body: ::core::pin::Pin<&mut dyn ::core::future::Future<Output = _>> =
                ::core::pin::pin!(body);
            #[allow(clippy::expect_used)]
            $krate::runtime::Builder::$flavor()
                .enable_all()
                $settings
                .$build
                .expect(\"Failed building the Runtime\")
                .block_on(body)
        }",
    )
    .fill("krate", krate.clone())
    .fill(
        "flavor",
        tokens(match options.flavor {
            Flavor::MultiThread => "new_multi_thread",
            Flavor::CurrentThread | Flavor::Local => "new_current_thread",
        }),
    )
    .fill("settings", settings)
    .fill(
        "build",
        tokens(match options.flavor {
            Flavor::Local => "build_local(::core::default::Default::default())",
            Flavor::MultiThread | Flavor::CurrentThread => "build()",
        }),
    )
    .build()
}
