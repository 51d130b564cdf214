//! Stacks written as a tree: what they have in common from the root on is written once.

use std::fmt;

#[derive(Default)]
struct Node {
    calls: Vec<(String, Node)>,
}

impl Node {
    /// Adds a stack, outermost call first.
    fn add(&mut self, stack: Vec<String>) {
        let mut node = self;
        for line in stack {
            let known = node.calls.iter().position(|(known, _)| *known == line);
            let index = known.unwrap_or_else(|| {
                node.calls.push((line, Self::default()));
                node.calls.len() - 1
            });
            node = &mut node.calls[index].1;
        }
    }

    /// Writes the calls below this one, each after a line break and `indent`.
    fn write(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        let last = self.calls.len().saturating_sub(1);
        for (index, (line, node)) in self.calls.iter().enumerate() {
            let (branch, deeper) = match index == last {
                true => ("└╼", "   "),
                false => ("├╼", "│  "),
            };
            write!(f, "\n{indent}{branch} {line}")?;
            node.write(f, &format!("{indent}{deeper}"))?;
        }
        Ok(())
    }
}

/// Writes `stacks`, each with its outermost call first.
pub(super) fn write(
    f: &mut fmt::Formatter<'_>,
    stacks: impl Iterator<Item = Vec<String>>,
) -> fmt::Result {
    let mut root = Node::default();
    stacks.for_each(|stack| root.add(stack));
    for (index, (line, node)) in root.calls.iter().enumerate() {
        let separator = if index == 0 { "" } else { "\n" };
        write!(f, "{separator}╼ {line}")?;
        node.write(f, "")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(&'static [&'static [&'static str]]);

    impl fmt::Display for Tree {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let owned = |stack: &&[&str]| stack.iter().map(|&call| call.to_owned()).collect();
            write(f, self.0.iter().map(owned))
        }
    }

    #[test]
    fn common_calls_are_written_once() {
        let tree = Tree(&[&["a", "b", "c"], &["a", "b", "d", "e"], &["a", "f"], &["g"]]);
        let expected = "╼ a\n├╼ b\n│  ├╼ c\n│  └╼ d\n│     └╼ e\n└╼ f\n╼ g";
        assert_eq!(tree.to_string(), expected);
        assert_eq!(Tree(&[]).to_string(), "");
    }
}
