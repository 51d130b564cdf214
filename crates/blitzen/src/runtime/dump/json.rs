//! Just enough JSON to write a list of tasks.

use std::fmt::{self, Display, Write};

/// An object under construction.
pub(super) struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl<'a> Object<'a> {
    pub(super) fn new(out: &'a mut String) -> Self {
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
    pub(super) fn literal(&mut self, key: &str, value: impl Display) -> &mut Self {
        let out = self.key(key);
        // Writing into a `String` does not fail.
        let _ = write!(out, "{value}");
        self
    }

    pub(super) fn text(&mut self, key: &str, value: impl Display) -> &mut Self {
        let text = value.to_string();
        push_text(self.key(key), &text);
        self
    }

    pub(super) fn optional_text(&mut self, key: &str, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.text(key, value),
            None => self.literal(key, "null"),
        }
    }

    pub(super) fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object<'_>)) -> &mut Self {
        let mut object = Object::new(self.key(key));
        fill(&mut object);
        object.end();
        self
    }

    pub(super) fn end(self) {
        self.out.push('}');
    }
}

/// An array of objects.
pub(super) fn push_array<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    fill: impl Fn(&mut Object<'_>, T),
) {
    out.push('[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        let mut object = Object::new(out);
        fill(&mut object, item);
        object.end();
    }
    out.push(']');
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
            object.object("o", |_| ());
        });
        assert_eq!(
            out,
            r#"[{"n":1,"t":"a\"b\\c\u000ad é","none":null,"o":{}}]"#
        );
    }
}
