//! Just enough JSON to describe a runtime to other programs.

use std::fmt::{self, Display, Write};

/// An object under construction.
pub(crate) struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl<'a> Object<'a> {
    fn new(out: &'a mut String) -> Self {
        out.push('{');
        Self {
            out,
            is_empty: true,
        }
    }

    fn key(&mut self, key: &str) -> &mut String {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(',');
        }
        push_text(self.out, key);
        self.out.push(':');
        self.out
    }

    /// A number, `true`, `false`, or anything else whose text is JSON.
    pub(crate) fn literal(&mut self, key: &str, value: impl Display) -> &mut Self {
        let out = self.key(key);
        // Writing into a `String` does not fail.
        let _ = write!(out, "{value}");
        self
    }

    pub(crate) fn text(&mut self, key: &str, value: impl Display) -> &mut Self {
        let text = value.to_string();
        push_text(self.key(key), &text);
        self
    }

    pub(crate) fn optional_text(&mut self, key: &str, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.text(key, value),
            None => self.literal(key, "null"),
        }
    }

    pub(crate) fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object<'_>)) -> &mut Self {
        push_object(self.key(key), fill);
        self
    }

    /// An array of objects.
    pub(crate) fn array<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        fill: impl Fn(&mut Object<'_>, T),
    ) -> &mut Self {
        push_array(self.key(key), items, fill);
        self
    }

    /// An array of anything whose text is JSON.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub(crate) fn literals(
        &mut self,
        key: &str,
        values: impl IntoIterator<Item = impl Display>,
    ) -> &mut Self {
        push_list(self.key(key), values, |out, value| {
            // Writing into a `String` does not fail.
            let _ = write!(out, "{value}");
        });
        self
    }

    /// An array of texts.
    pub(crate) fn texts<'t>(
        &mut self,
        key: &str,
        values: impl IntoIterator<Item = &'t str>,
    ) -> &mut Self {
        push_list(self.key(key), values, push_text);
        self
    }

    pub(crate) fn optional(&mut self, key: &str, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.literal(key, value),
            None => self.literal(key, "null"),
        }
    }

    fn end(self) {
        self.out.push('}');
    }
}

/// An array of objects.
pub(crate) fn push_array<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    fill: impl Fn(&mut Object<'_>, T),
) {
    push_list(out, items, |out, item| {
        push_object(out, |object| fill(object, item))
    });
}

/// One object.
pub(crate) fn push_object(out: &mut String, fill: impl FnOnce(&mut Object<'_>)) {
    let mut object = Object::new(out);
    fill(&mut object);
    object.end();
}

fn push_list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    push: impl Fn(&mut String, T),
) {
    out.push('[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push(out, item);
    }
    out.push(']');
}

/// A text, in quotation marks.
#[cfg_attr(not(unix), allow(dead_code))]
pub(crate) fn text(text: &str) -> String {
    let mut out = String::new();
    push_text(&mut out, text);
    out
}

fn push_text(out: &mut String, text: &str) {
    out.push('"');
    // Writing into a `String` does not fail.
    let _ = write!(out, "{}", Escaped(text));
    out.push('"');
}

struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                control if control < ' ' => write!(f, "\\u{:04x}", u32::from(control))?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_backslashes_and_control_characters_are_escaped() {
        let mut out = String::new();
        push_array(&mut out, [1], |object, number| {
            object.literal("n", number).text("t", "a\"b\\c\nd é");
            object.optional_text("none", None::<&str>);
            object.object("o", |_| ()).optional("m", Some(2));
            object.texts("s", ["x", "y"]).literals("l", [1, 2]);
            object.array("a", [3], |object, number| {
                object.literal("n", number);
            });
        });
        assert_eq!(
            out,
            r#"[{"n":1,"t":"a\"b\\c\u000ad é","none":null,"o":{},"m":2,"s":["x","y"],"l":[1,2],"a":[{"n":3}]}]"#
        );
    }
}
