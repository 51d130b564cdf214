//! Colours in the terminal, and tables of cells that may have one.
//!
//! A colour never says something alone: the words `met`, `MISSED` and the figures stand
//! there without it too.

use std::io::IsTerminal;

/// Whether to write colours.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Color {
    /// If the output is a terminal and `NO_COLOR` is not set.
    Auto,
    Always,
    Never,
}

impl Color {
    pub(crate) fn is_on(self) -> bool {
        match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let is_refused =
                    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
                !is_refused && !is_dumb && std::io::stdout().is_terminal()
            }
        }
    }
}

/// What a cell wants to say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Style {
    #[default]
    Plain,
    Strong,
    Dim,
    Good,
    Bad,
}

impl Style {
    /// Of a ratio where more than 1 is ahead.
    pub(crate) fn of_ratio(ratio: Option<f64>) -> Style {
        match ratio {
            Some(ratio) if ratio >= 1.05 => Style::Good,
            Some(ratio) if ratio < 0.95 => Style::Bad,
            _ => Style::Plain,
        }
    }

    /// Blue and yellow: the pair that every kind of colour vision tells apart.
    fn escape(self) -> Option<&'static str> {
        match self {
            Style::Plain => None,
            Style::Strong => Some("\x1b[1m"),
            Style::Dim => Some("\x1b[2m"),
            Style::Good => Some("\x1b[94m"),
            Style::Bad => Some("\x1b[1;33m"),
        }
    }

    /// `text` in this style, if colours are `on`.
    pub(crate) fn paint(self, text: &str, on: bool) -> String {
        match self.escape() {
            Some(escape) if on && !text.is_empty() => format!("{escape}{text}\x1b[0m"),
            _ => text.to_string(),
        }
    }
}

/// One field of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) style: Style,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>, style: Style) -> Cell {
        let text = text.into();
        Cell { text, style }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::new(text, Style::Plain)
    }
}

/// Lines of cells, each column as wide as its widest; the first column is text, the
/// others are numbers.
pub(crate) fn table(lines: &[Vec<Cell>], is_colored: bool) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(Cell::width).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut shown = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.width());
            let painted = cell.style.paint(&cell.text, is_colored);
            match column {
                0 => shown.extend([painted, pad]),
                _ => shown.extend(["  ".to_string(), pad, painted]),
            }
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_their_cells_hold() {
        let lines = [
            vec!["a".into(), "12 µs".into(), "x".into()],
            vec!["name".into(), "3 ns".into()],
        ];
        assert_eq!(table(&lines, true), "a     12 µs  x\nname   3 ns\n");
    }

    #[test]
    fn a_colour_changes_no_width() {
        let lines = [
            vec![Cell::new("a", Style::Strong), Cell::new("1", Style::Good)],
            vec!["bb".into(), "22".into()],
        ];
        assert_eq!(table(&lines, false), "a    1\nbb  22\n");
        let colored = table(&lines, true);
        assert_eq!(colored, "\x1b[1ma\x1b[0m    \x1b[94m1\x1b[0m\nbb  22\n");
    }

    #[test]
    fn near_one_is_neither_good_nor_bad() {
        assert_eq!(Style::of_ratio(Some(1.0)), Style::Plain);
        assert_eq!(Style::of_ratio(Some(2.0)), Style::Good);
        assert_eq!(Style::of_ratio(Some(0.5)), Style::Bad);
        assert_eq!(Style::of_ratio(None), Style::Plain);
    }
}
