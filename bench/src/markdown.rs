//! The table of a run as Markdown, and its place in a page of the documentation.

use std::fmt::Write;

use crate::report;
use crate::run::Run;
use crate::style::Cell;

/// What stands around the table in a page.
const BEGIN: &str = "<!-- table -->";
const END: &str = "<!-- /table -->";

/// A section for each group, with its rows and its mean.
pub(crate) fn tables(run: &Run) -> String {
    let mut text = format!(
        "Taken on {}. Compared with {}.\n",
        run.machine.line(),
        run.machine.peers_line()
    );
    let rounds = run.rows.iter().map(|row| row.rounds).max().unwrap_or(0);
    let loads = run.rows.iter().filter_map(|row| row.others_busy);
    let load = loads.fold(0.0, f64::max);
    writeln!(
        text,
        "\n{rounds} rounds; other processes kept at most {load:.1} processors busy during a row. \
         The ratios are medians of all rounds, with their range."
    )
    .expect("a string takes everything");
    let means = report::group_means(&run.rows);
    for group in run.groups() {
        write!(text, "\n### {group}\n\n").expect("a string takes everything");
        let outcomes: Vec<_> = run.rows.iter().filter(|row| row.group == group).collect();
        let mut lines = vec![HEADER.map(Cell::from).to_vec()];
        for outcome in outcomes {
            lines.extend(report::summary_lines(std::slice::from_ref(outcome)));
        }
        text.push_str(&table(&lines));
        for mean in means.iter().filter(|mean| mean.group == group) {
            write!(text, "\n{}.\n", capitalised(&mean.sentence()))
                .expect("a string takes everything");
        }
    }
    text
}

const HEADER: [&str; 9] = [
    "row",
    "Tokio",
    "best peer",
    "which is",
    "blitzen",
    "× Tokio",
    "× best peer",
    "target",
    "",
];

/// The first line is the header; the first column and those of words are left-aligned.
fn table(lines: &[Vec<Cell>]) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line
            .iter()
            .map(|cell| cell.text.replace('|', "\\|"))
            .collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
        if index == 0 {
            let rules = [
                "---", "--:", "--:", "---", "--:", "--:", "--:", "---", "---",
            ];
            text.push_str(&format!("| {} |\n", rules[..line.len()].join(" | ")));
        }
    }
    text
}

fn capitalised(sentence: &str) -> String {
    let mut chars = sentence.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// `page` with `table` between its two marks.
pub(crate) fn replace(page: &str, table: &str) -> Result<String, String> {
    let missing = |mark: &str| format!("the page has no line {mark}");
    let (before, rest) = page.split_once(BEGIN).ok_or_else(|| missing(BEGIN))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| missing(END))?;
    Ok(format!(
        "{before}{BEGIN}\n\n{}\n\n{END}{after}",
        table.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let page = "a\n<!-- table -->\nold\n<!-- /table -->\nb\n";
        let replaced = replace(page, "new\n").unwrap();
        assert_eq!(replaced, "a\n<!-- table -->\n\nnew\n\n<!-- /table -->\nb\n");
        assert_eq!(replace(&replaced, "new").unwrap(), replaced);
    }

    #[test]
    fn a_page_without_marks_is_left_alone() {
        assert!(replace("nothing", "new").is_err());
        assert!(replace("<!-- table -->", "new").is_err());
    }
}
