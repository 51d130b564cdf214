//! How a connection begins, and how answers follow each other.

use crate::Greeting;

/// The name and the version of the protocol that is understood.
const PROTOCOL: &str = "blitzen-console";
const VERSION: u32 = 1;

/// The longest greeting that is read, in bytes.
pub const MAX_GREETING: u64 = 4096;

/// The longest first line of an answer that is read, in bytes.
pub const MAX_HEAD: u64 = 64;

/// The longest answer that is read, in bytes.
pub const MAX_ANSWER: u64 = 1 << 30;

impl Greeting {
    /// Reads the first line of a connection.
    ///
    /// # Errors
    /// Returns what the line says instead.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let greeting: Self = serde_json::from_slice(line)
            .map_err(|error| format!("no console of a program on blitzen: {error}"))?;
        match greeting.protocol == PROTOCOL && greeting.version == VERSION {
            true => Ok(greeting),
            false => Err(format!("speaks {} {}", greeting.protocol, greeting.version)),
        }
    }
}

/// The first line of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// Whether the bytes that follow are what was asked for, and not a text that says why not.
    pub is_ok: bool,
    /// How many bytes follow.
    pub len: u64,
}

impl AnswerHead {
    /// Reads a line, with its end. Returns `None` if it has another form, or announces more than
    /// [`MAX_ANSWER`].
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = str::from_utf8(line).ok()?.strip_suffix('\n')?;
        let (word, len) = line.split_once(' ')?;
        let is_ok = match word {
            "ok" => true,
            "error" => false,
            _ => return None,
        };
        let len = len.parse().ok().filter(|len| *len <= MAX_ANSWER)?;
        Some(Self { is_ok, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_protocol_and_version_are_understood() {
        let line = |protocol: &str, version: u32| {
            format!(
                r#"{{"protocol":"{protocol}","version":{version},"pid":7,"program":"a","new":[]}}"#
            )
        };
        let greeting = Greeting::parse(line(PROTOCOL, VERSION).as_bytes()).unwrap();
        assert_eq!((greeting.pid, greeting.runtime), (7, None));
        for (protocol, version) in [(PROTOCOL, 2), ("ssh", VERSION)] {
            let why = Greeting::parse(line(protocol, version).as_bytes()).unwrap_err();
            assert_eq!(why, format!("speaks {protocol} {version}"));
        }
        for garbage in ["", "{}", "SSH-2.0", "\u{0}"] {
            assert!(Greeting::parse(garbage.as_bytes()).is_err(), "{garbage}");
        }
    }

    #[test]
    fn an_answer_says_what_it_is_and_how_long() {
        let head = |is_ok, len| Some(AnswerHead { is_ok, len });
        assert_eq!(AnswerHead::parse(b"ok 12\n"), head(true, 12));
        assert_eq!(AnswerHead::parse(b"error 0\n"), head(false, 0));
        let too_long = format!("ok {}\n", MAX_ANSWER + 1);
        for other in [
            "",
            "ok 12",
            "ok\n",
            "ok -1\n",
            "ok x\n",
            "no 12\n",
            too_long.as_str(),
        ] {
            assert_eq!(AnswerHead::parse(other.as_bytes()), None, "{other:?}");
        }
        assert_eq!(AnswerHead::parse(b"\xff 1\n"), None);
    }
}
