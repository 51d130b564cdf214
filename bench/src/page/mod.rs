//! A run as one page of HTML that needs nothing but a browser: no network, no other file.
//!
//! Everything is laid out here; a few lines of script only hide what the reader does not
//! look for. Bars and dots are boxes placed in per cent, so that the page fits any width.
//! A colour never says something alone: shapes and words repeat it.

mod curves;

use std::fmt::Write;

use crate::compare::{Outcome, Standing};
use crate::report::{self, NOISY};
use crate::row::{BLITZEN, COMPLETION, Role, TOKIO};
use crate::run::Run;
use crate::stats::Ratio;

/// The whole page.
pub(crate) fn html(run: &Run) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>blitzen beside other runtimes</title>\n<style>\n{}</style>\n</head>\n<body>\n",
        include_str!("style.css")
    );
    page.push_str(&head(run));
    if !run.rows.is_empty() {
        page.push_str(&tiles(run));
        page.push_str(CONTROLS);
        page.push_str(&ratios(run));
        page.push_str(&figures(run));
        page.push_str(&foreign_load(run));
    }
    if !run.scaling.is_empty() {
        page.push_str(&curves::section(&run.scaling));
    }
    page.push_str(FOOTER);
    if !run.rows.is_empty() {
        write!(page, "<script>\n{}</script>\n", include_str!("script.js")).expect(FITS);
    }
    page.push_str("</body>\n</html>\n");
    page
}

const FITS: &str = "a string takes everything";

/// Text as it stands in HTML.
fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

fn head(run: &Run) -> String {
    let rounds = run.rows.iter().map(|row| row.rounds).max();
    let rounds = rounds.map_or(String::new(), |rounds| format!("{rounds} rounds. "));
    format!(
        "<header>\n<h1>blitzen beside other runtimes</h1>\n<p>Every contender of a row takes its \
         turn in every round of the same process; ratios are taken within a round.</p>\n\
         <p class=\"soft\">{rounds}{}.<br>{}.</p>\n</header>\n",
        escape(&run.machine.line()),
        escape(&run.machine.peers_line()),
    )
}

fn tiles(run: &Run) -> String {
    let mut text = String::from("<section class=\"tiles\" aria-label=\"Means of the groups\">\n");
    for mean in report::group_means(&run.rows) {
        let form = match mean.form {
            BLITZEN => String::new(),
            form => format!(" ({})", form.trim_start_matches("blitzen-")),
        };
        writeln!(
            text,
            "<div class=\"tile\"><span>{}{form}</span><b>{:.2} ×</b>\
             <span>Tokio, geometric mean of {} rows</span>\
             <span>{} of {} rows behind Tokio</span>\
             <span>{} of {} level with the best peer or ahead</span></div>",
            escape(&mean.group),
            mean.mean,
            mean.rows_in_mean,
            mean.slower_than_tokio,
            mean.rows_with_tokio,
            mean.level_with_best,
            mean.rows_with_peers,
        )
        .expect(FITS);
    }
    text.push_str("</section>\n");
    text
}

/// Shown by the script, which they are useless without.
const CONTROLS: &str = "<div class=\"controls\" id=\"controls\" hidden>\n\
    <input type=\"search\" id=\"filter\" placeholder=\"rows, such as mpsc or echo\" \
    aria-label=\"Show only these rows\">\n\
    <label><input type=\"checkbox\" id=\"only-behind\"> only rows where a peer is ahead</label>\n\
    </div>\n";

const FOOTER: &str = "<footer>\n<h2>How to read it</h2>\n\
    <p>A ratio of 2 means half the cost of Tokio in the same round. The bar around a dot is the \
    range of all rounds: a bar that crosses 1 says that the row is level. Rows of one task are \
    best judged by instructions, rows of waking by the floor (the bare system call or thread) \
    beside them. Where other processes kept more than 0.3 processors busy, trust CPU time, \
    instructions and allocations more than time.</p>\n</footer>\n";

/// Whether a peer does better in a row: Tokio, or the best of them.
fn is_behind(outcome: &Outcome, standing: &Standing) -> bool {
    let below = |ratio: Option<Ratio>| ratio.is_some_and(|ratio| ratio.median < 1.0);
    let peers = outcome.standings.iter();
    let has_peer = peers.filter(|one| one.role == Role::Peer).count() > 0;
    has_peer && (below(standing.over_tokio) || below(standing.over_best_peer))
}

/// What marks an element that belongs to a row.
fn row_data(outcome: &Outcome, is_behind: bool) -> String {
    let names: Vec<&str> = outcome
        .standings
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let words = format!("{} {} {}", outcome.group, outcome.row, names.join(" "));
    format!(
        "data-row=\"{}\" data-behind=\"{}\"",
        escape(&words.to_lowercase()),
        if is_behind { "yes" } else { "no" }
    )
}

/// A logarithmic scale between two powers of two that holds all ratios, up to a bound.
struct Scale {
    low: f64,
    high: f64,
}

/// What lies farther out is drawn at the edge.
const FARTHEST: f64 = 256.0;

impl Scale {
    fn of(ratios: impl Iterator<Item = Ratio>) -> Scale {
        let mut scale = Scale {
            low: 0.5,
            high: 2.0,
        };
        for ratio in ratios {
            while scale.low > ratio.low && scale.low > 1.0 / FARTHEST {
                scale.low /= 2.0;
            }
            while scale.high < ratio.high && scale.high < FARTHEST {
                scale.high *= 2.0;
            }
        }
        scale
    }

    /// Where a ratio is, in per cent of the width.
    fn place(&self, ratio: f64) -> f64 {
        let share = (ratio / self.low).ln() / (self.high / self.low).ln();
        100.0 * share.clamp(0.0, 1.0)
    }

    /// The powers of two, as many as leave room for their names.
    fn ticks(&self) -> Vec<f64> {
        let doublings = (self.high / self.low).log2().round() as i32;
        let step = if doublings > 6 { 2 } else { 1 };
        // Counted from 1, so that it has a tick.
        let first = self.low.log2().round() as i32;
        (first..=first + doublings)
            .filter(|power| power % step == 0)
            .map(|power| 2f64.powi(power))
            .collect()
    }

    fn rules(&self) -> String {
        let rule = |tick: f64| {
            let class = if tick == 1.0 { " class=\"one\"" } else { "" };
            format!("<i{class} style=\"left:{:.2}%\"></i>", self.place(tick))
        };
        self.ticks().into_iter().map(rule).collect()
    }
}

/// A line for each row: the ratio to Tokio with its range, and where the best peer is.
fn ratios(run: &Run) -> String {
    let mut text = String::from(
        "<section>\n<h2>Ratio to Tokio</h2>\n<ul class=\"legend\">\
         <li><span class=\"key k-ahead\"></span>ahead of Tokio, median</li>\
         <li><span class=\"key k-behind\"></span>behind</li>\
         <li><span class=\"key k-range\"></span>range of all rounds</li>\
         <li><span class=\"key k-peer\"></span>the best peer, where it is not Tokio</li>\
         <li><span class=\"key k-one\"></span>1: Tokio</li></ul>\n",
    );
    for group in run.groups() {
        let lines: Vec<(&Outcome, &Standing)> = run
            .rows
            .iter()
            .filter(|outcome| outcome.group == group)
            .flat_map(|outcome| outcome.judged().into_iter().map(move |one| (outcome, one)))
            .collect();
        let drawn = lines.iter().filter_map(|(_, one)| one.over_tokio);
        let scale = Scale::of(drawn);
        let labels = scale.ticks().into_iter().map(|tick| {
            let label = match tick < 1.0 {
                true => format!("1/{}", 1.0 / tick),
                false => tick.to_string(),
            };
            format!("<em style=\"left:{:.2}%\">{label}</em>", scale.place(tick))
        });
        writeln!(
            text,
            "<div data-group>\n<h3>{}</h3>\n<div class=\"ratio axis\"><span class=\"name\"></span>\
             <div class=\"track\">{}</div><span class=\"figure\"></span></div>",
            escape(group),
            labels.collect::<String>()
        )
        .expect(FITS);
        for (outcome, standing) in lines {
            text.push_str(&ratio_line(outcome, standing, &scale));
        }
        text.push_str("</div>\n");
    }
    text.push_str("</section>\n");
    text
}

fn ratio_line(outcome: &Outcome, standing: &Standing, scale: &Scale) -> String {
    let form = match standing.name.as_str() {
        BLITZEN => String::new(),
        COMPLETION => " (completion)".to_string(),
        name => format!(" ({name})"),
    };
    let (class, marks, figure) = match standing.over_tokio {
        None => ("", String::new(), "<small>no ratio</small>".to_string()),
        Some(ratio) => {
            let class = if ratio.median < 1.0 {
                "behind"
            } else {
                "ahead"
            };
            let (low, high) = (scale.place(ratio.low), scale.place(ratio.high));
            let marks = format!(
                "<div class=\"range\" style=\"left:{low:.2}%;width:{:.2}%\"></div>{}\
                 <div class=\"dot\" style=\"left:{:.2}%\"></div>",
                high - low,
                best_peer_mark(outcome, scale),
                scale.place(ratio.median),
            );
            let figure = format!(
                "<b>{:.2}</b> <small>{:.2} – {:.2}</small>",
                ratio.median, ratio.low, ratio.high
            );
            (class, marks, figure)
        }
    };
    format!(
        "<div class=\"ratio {class}\" {} title=\"{}\"><span class=\"name\">{}{form}</span>\
         <div class=\"track\">{}{marks}</div><span class=\"figure num\">{figure}</span></div>\n",
        row_data(outcome, is_behind(outcome, standing)),
        escape(&outcome.what),
        escape(&outcome.row),
        scale.rules(),
    )
}

fn best_peer_mark(outcome: &Outcome, scale: &Scale) -> String {
    let best = outcome.best_peer.as_deref().filter(|name| *name != TOKIO);
    let standing = best.and_then(|name| outcome.standing(name));
    let mark = standing.and_then(|one| {
        let place = scale.place(one.over_tokio?.median);
        Some(format!(
            "<div class=\"peer\" style=\"left:{place:.2}%\" title=\"{}\"></div>",
            escape(&one.name)
        ))
    });
    mark.unwrap_or_default()
}

/// What a card can show.
struct Figure {
    /// Of its tab and of the class of its bars.
    id: &'static str,
    title: &'static str,
}

const FIGURES: [Figure; 5] = [
    Figure {
        id: "m-time",
        title: "value",
    },
    Figure {
        id: "m-cpu",
        title: "CPU time",
    },
    Figure {
        id: "m-alloc",
        title: "allocations",
    },
    Figure {
        id: "m-instr",
        title: "instructions",
    },
    Figure {
        id: "m-sys",
        title: "system calls",
    },
];

/// A card for each row with the figures of all contenders.
fn figures(run: &Run) -> String {
    let mut text = String::from(
        "<section>\n<h2>Figures</h2>\n<p class=\"soft\">Per operation. The value is the row's own: \
         a time unless the row says otherwise; the tick beside a bar is the 95th percentile. A bar \
         that fades is longer than there is room for. \
         Instructions are counted with one worker, in rows that keep one thread busy at a time.\
         </p>\n<div class=\"controls\"><div class=\"tabs\" role=\"radiogroup\" \
         aria-label=\"Figure\">",
    );
    for (index, figure) in FIGURES.iter().enumerate() {
        write!(
            text,
            "<label><input type=\"radio\" name=\"figure\" id=\"{}\"{}><span>{}</span></label>",
            figure.id,
            if index == 0 { " checked" } else { "" },
            figure.title
        )
        .expect(FITS);
    }
    text.push_str("</div></div>\n");
    for group in run.groups() {
        writeln!(
            text,
            "<div data-group>\n<h3>{}</h3>\n<div class=\"cards\">",
            escape(group)
        )
        .expect(FITS);
        for outcome in run.rows.iter().filter(|outcome| outcome.group == group) {
            text.push_str(&card(run, outcome));
        }
        text.push_str("</div>\n</div>\n");
    }
    text.push_str("</section>\n");
    text
}

fn card(run: &Run, outcome: &Outcome) -> String {
    let judged = outcome.judged();
    let is_behind = judged.iter().any(|one| is_behind(outcome, one));
    let mut text = format!(
        "<article class=\"card\" {}>\n<h4 class=\"name\">{}</h4>\n<p class=\"what\">{}</p>\n{}",
        row_data(outcome, is_behind),
        escape(&outcome.row),
        escape(&outcome.what),
        chips(outcome),
    );
    let standings = &outcome.standings;
    let all = |value: &dyn Fn(&Standing) -> Option<Bar>| -> Vec<(usize, Bar)> {
        let bars = standings.iter().enumerate();
        bars.filter_map(|(index, one)| Some((index, value(one)?)))
            .collect()
    };
    let p95 = |one: &Standing| (one.points > 1).then_some(one.p95);
    let value = all(&|one| {
        Some(Bar {
            p95: p95(one),
            ..Bar::new(one.median, report::show(one.median, outcome.unit))
        })
    });
    let cpu = all(&|one| {
        let cpu_ns = one.per_op?.cpu_ns;
        Some(Bar::new(cpu_ns, report::show_ns(cpu_ns)))
    });
    let allocations = all(&|one| {
        let used = one.per_op?;
        let shown = format!("{} ({:.0} B)", trimmed(used.allocations), used.bytes);
        Some(Bar::new(used.allocations, shown))
    });
    let instructions = all(&|one| {
        let count = run.instructions_of(&outcome.row, &one.name)?;
        Some(Bar::new(count, format!("{count:.0}")))
    });
    let syscalls = all(&|one| {
        let calls = run.syscalls_of(&outcome.row, &one.name)?;
        Some(Bar {
            kinds: calls.kinds(),
            ..Bar::new(calls.all_per_op, trimmed(calls.all_per_op))
        })
    });
    let nothing = [
        "",
        "Not measured: the harness would be most of it.",
        "Not measured: the harness would be most of it.",
        "Not counted in this run, or this row keeps several threads busy.",
        "Not counted in this run.",
    ];
    let bars = [value, cpu, allocations, instructions, syscalls];
    for ((figure, bars), nothing) in FIGURES.iter().zip(bars).zip(nothing) {
        write!(text, "<div class=\"bars {}\">", figure.id).expect(FITS);
        match bars.is_empty() {
            true => write!(text, "<p class=\"none\">{nothing}</p>").expect(FITS),
            false => text.push_str(&bar_lines(outcome, &bars)),
        }
        text.push_str("</div>\n");
    }
    text.push_str("</article>\n");
    text
}

/// A small number with as many digits as say something.
fn trimmed(value: f64) -> String {
    let text = format!("{:.3}", value.max(0.0));
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_string()
}

fn chips(outcome: &Outcome) -> String {
    let mut text = format!(
        "<ul class=\"chips\"><li>{} workers</li><li>{} operations</li>",
        outcome.workers, outcome.ops
    );
    if let Some(busy) = outcome.others_busy {
        let class = if busy > NOISY { " class=\"noisy\"" } else { "" };
        write!(text, "<li{class}>foreign load {busy:.1}</li>").expect(FITS);
    }
    for verdict in &outcome.verdicts {
        let (class, mark) = match (verdict.is_met, verdict.is_stretch) {
            (true, _) => ("met", "✓"),
            (false, false) => ("missed", "✗"),
            (false, true) => ("", "○"),
        };
        let of = match verdict.of.as_str() {
            BLITZEN => "",
            COMPLETION => "completion ",
            other => other,
        };
        write!(
            text,
            "<li class=\"{class}\">{mark} {of}{}</li>",
            escape(&verdict.aim)
        )
        .expect(FITS);
    }
    text.push_str("</ul>\n");
    text
}

/// One contender's figure.
struct Bar {
    value: f64,
    shown: String,
    p95: Option<f64>,
    /// What the figure is made of, in words.
    kinds: String,
}

impl Bar {
    fn new(value: f64, shown: String) -> Bar {
        Bar {
            value,
            shown,
            p95: None,
            kinds: String::new(),
        }
    }
}

/// The value that fills a bar: the greatest, but not so many times Tokio's and blitzen's
/// that theirs could not be told apart.
fn full_value(outcome: &Outcome, bars: &[(usize, Bar)]) -> f64 {
    const MOST_TIMES: f64 = 4.0;
    let greatest = bars.iter().map(|(_, bar)| bar.value).fold(0.0, f64::max);
    let compared = bars.iter().filter(|(index, _)| {
        let name = outcome.standings[*index].name.as_str();
        name == TOKIO || name == BLITZEN
    });
    let compared = compared.map(|(_, bar)| bar.value).fold(0.0, f64::max);
    match compared > 0.0 {
        true => greatest.min(MOST_TIMES * compared),
        false => greatest,
    }
}

fn bar_lines(outcome: &Outcome, bars: &[(usize, Bar)]) -> String {
    let longest = full_value(outcome, bars);
    let share = |value: f64| match longest > 0.0 {
        true => 100.0 * (value / longest).clamp(0.0, 1.0),
        false => 0.0,
    };
    let mut text = String::new();
    for (index, bar) in bars {
        let standing = &outcome.standings[*index];
        let class = match standing.role {
            Role::Subject => " subject",
            _ => "",
        };
        let p95 = bar
            .p95
            .filter(|p95| *p95 <= longest)
            .map_or(String::new(), |p95| {
                format!(
                    "<span class=\"p95\" style=\"left:{:.1}%\"></span>",
                    share(p95)
                )
            });
        write!(
            text,
            "<div class=\"bar{class}\"><span class=\"who\" title=\"{name}\">{name}{floor}</span>\
             <span class=\"space {color}\"><span class=\"fill{cut}\" style=\"width:{:.1}%\"></span>{p95}\
             </span><span class=\"num\">{}</span>{}</div>",
            share(bar.value),
            escape(&bar.shown),
            match bar.kinds.is_empty() {
                true => String::new(),
                false => format!("<p class=\"kinds\">{}</p>", escape(&bar.kinds)),
            },
            name = escape(&standing.name),
            cut = if bar.value > longest { " cut" } else { "" },
            floor = match standing.role {
                Role::Floor => " ▏floor",
                _ => "",
            },
            color = color(&standing.name),
        )
        .expect(FITS);
    }
    text
}

/// The class of a contender's colour, the same on the whole page. Libraries that meet in
/// a row have different ones.
fn color(name: &str) -> &'static str {
    match name {
        "blitzen" => "c0",
        "blitzen-completion" | "tokio+blitzen" => "c6",
        "tokio" => "c1",
        "smol" | "monoio" => "c2",
        "smol-static" | "compio" | "tokio+kanal" | "tokio+oneshot" => "c3",
        "may" | "glommio" | "tokio+flume" => "c4",
        "blitzen-alone" => "c0",
        "tokio-alone" => "c1",
        _ => "c5",
    }
}

/// A column for each row: how many processors others kept busy meanwhile.
fn foreign_load(run: &Run) -> String {
    let loads: Vec<(&Outcome, f64)> = run
        .rows
        .iter()
        .filter_map(|outcome| Some((outcome, outcome.others_busy?)))
        .collect();
    if loads.is_empty() {
        return String::new();
    }
    let highest = loads
        .iter()
        .map(|(_, load)| *load)
        .fold(2.0 * NOISY, f64::max);
    let noisy = loads.iter().filter(|(_, load)| *load > NOISY).count();
    let mut text = format!(
        "<section>\n<h2>Foreign load</h2>\n<p class=\"soft\">Processors that other processes kept \
         busy while a row was measured, one column for each of the {} rows in their order; {noisy} \
         are above {NOISY}, where times are not to be trusted. The highest is {highest:.1}.</p>\n\
         <div class=\"load\" role=\"img\" aria-label=\"Foreign load by row\">",
        loads.len()
    );
    for (outcome, load) in &loads {
        let class = if *load > NOISY {
            " class=\"noisy\""
        } else {
            ""
        };
        write!(
            text,
            "<div{class} style=\"height:{:.1}%\" title=\"{}: {load:.2}\"></div>",
            100.0 * load / highest,
            escape(&outcome.row)
        )
        .expect(FITS);
    }
    let limit = 100.0 * NOISY / highest;
    writeln!(
        text,
        "<hr style=\"bottom:{limit:.1}%\"><span style=\"bottom:{limit:.1}%\">{NOISY}</span></div>\n\
         </section>"
    )
    .expect(FITS);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_its_ends_at_the_edges_and_a_tick_at_one() {
        let ratio = |low, high| Ratio {
            median: 1.0,
            low,
            high,
        };
        let scale = Scale::of([ratio(0.3, 1.0), ratio(1.0, 7.0)].into_iter());
        assert_eq!((scale.low, scale.high), (0.25, 8.0));
        assert_eq!(scale.place(0.25), 0.0);
        assert_eq!(scale.place(8.0), 100.0);
        assert_eq!(scale.place(0.001), 0.0);
        assert!(scale.ticks().contains(&1.0));
        let wide = Scale::of([ratio(0.4, 1e9)].into_iter());
        assert_eq!(wide.high, FARTHEST);
        assert!(wide.ticks().contains(&1.0) && !wide.ticks().contains(&2.0));
    }

    #[test]
    fn text_cannot_end_an_element() {
        assert_eq!(escape("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
    }

    #[test]
    fn small_numbers_have_no_empty_digits() {
        assert_eq!(trimmed(0.0), "0");
        assert_eq!(trimmed(1.0), "1");
        assert_eq!(trimmed(0.0625), "0.062");
        assert_eq!(trimmed(-0.01), "0");
    }

    #[test]
    fn the_page_refers_to_nothing_outside_itself() {
        let page = html(&Run::default());
        for reference in ["http:", "https:", "src=", "href=", "@import", "url("] {
            assert!(!page.contains(reference), "{reference}");
        }
    }
}
