//! Curves of cost over workers and sizes, drawn as SVG.

use std::fmt::Write;

use super::{FITS, color, escape};
use crate::report;
use crate::row::Unit;
use crate::scaling::Curve;

/// The drawing in its own units: near the pixels of a narrow screen, so that text keeps
/// its size there.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 38.0;

pub(super) fn section(curves: &[Curve]) -> String {
    let mut text = String::from(
        "<section>\n<h2>Scaling</h2>\n<p class=\"soft\">The same operation with more workers, and \
         with ten times as many tasks, timers or connections at each step. Both scales are \
         logarithmic; a flat curve is the best there is, and a rising one where the value is \
         operations a second. The band around a curve is the range of \
         all rounds.</p>\n<div class=\"curves\">\n",
    );
    for curve in curves.iter().filter(|curve| !curve.points.is_empty()) {
        text.push_str(&card(curve));
    }
    text.push_str("</div>\n</section>\n");
    text
}

fn card(curve: &Curve) -> String {
    let mut text = format!(
        "<article class=\"card\">\n<h4 class=\"name\">{}</h4>\n<p class=\"what\">{}</p>\n",
        escape(&curve.row),
        escape(&curve.what)
    );
    text.push_str(&drawing(curve));
    text.push_str("<ul class=\"legend\">");
    for (index, name) in curve.contenders().into_iter().enumerate() {
        write!(
            text,
            "<li class=\"{}\"><svg viewBox=\"0 0 30 12\" aria-hidden=\"true\">\
             <path class=\"curve\" d=\"M1 6H29\"{}/>{}</svg><span>{}</span></li>",
            color(name),
            dash(index),
            mark(index, 15.0, 6.0),
            escape(name)
        )
        .expect(FITS);
    }
    text.push_str("</ul>\n</article>\n");
    text
}

/// One contender's medians and ranges, by point.
struct Line<'a> {
    name: &'a str,
    places: Vec<Place>,
}

struct Place {
    x: f64,
    middle: f64,
    low: f64,
    high: f64,
}

fn drawing(curve: &Curve) -> String {
    let unit = curve.points[0].outcome.unit;
    let lines: Vec<Line<'_>> = curve
        .contenders()
        .into_iter()
        .map(|name| line(curve, name))
        .collect();
    let values = lines.iter().flat_map(|line| &line.places);
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), place| {
        (low.min(place.low), high.max(place.high))
    });
    let scale = Decades::of(low, high);
    let mut text = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} over {}\">\n",
        escape(&curve.row),
        curve.axis.name()
    );
    for tick in scale.ticks() {
        let y = scale.y(tick);
        writeln!(
            text,
            "<path class=\"rule\" d=\"M{LEFT} {y:.1}H{}\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            escape(&tick_name(tick, unit))
        )
        .expect(FITS);
    }
    for (index, point) in curve.points.iter().enumerate() {
        let x = x_of(index, curve.points.len());
        writeln!(
            text,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - BOTTOM + 17.0,
            count_name(point.at)
        )
        .expect(FITS);
    }
    writeln!(
        text,
        "<path class=\"base\" d=\"M{LEFT} {0}H{1}\"/><text x=\"{2}\" y=\"{3}\" \
         text-anchor=\"middle\">{4}</text>",
        HEIGHT - BOTTOM,
        WIDTH - RIGHT,
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 5.0,
        curve.axis.name()
    )
    .expect(FITS);
    // Backwards, so that the first contender lies on top.
    for (index, line) in lines.iter().enumerate().rev() {
        text.push_str(&drawn(index, line, &scale));
    }
    text.push_str("</svg>\n");
    text
}

fn line<'a>(curve: &Curve, name: &'a str) -> Line<'a> {
    let points = curve.points.iter().enumerate();
    let places = points.filter_map(|(index, point)| {
        let standing = point.outcome.standing(name)?;
        let rounds = || standing.by_round.iter().copied();
        Some(Place {
            x: x_of(index, curve.points.len()),
            middle: standing.median,
            low: rounds().fold(standing.median, f64::min),
            high: rounds().fold(standing.median, f64::max),
        })
    });
    let places = places.filter(|place| place.low > 0.0);
    Line {
        name,
        places: places.collect(),
    }
}

/// Points are equally far apart: every axis grows by a factor.
fn x_of(index: usize, count: usize) -> f64 {
    let width = WIDTH - LEFT - RIGHT - 24.0;
    LEFT + 12.0 + width * index as f64 / (count.max(2) - 1) as f64
}

fn drawn(index: usize, line: &Line<'_>, scale: &Decades) -> String {
    let path = |places: &mut dyn Iterator<Item = (f64, f64)>| -> String {
        let steps = places.map(|(x, value)| format!("{x:.1} {:.1}", scale.y(value)));
        steps.collect::<Vec<_>>().join("L")
    };
    let forth = path(&mut line.places.iter().map(|place| (place.x, place.high)));
    let back = path(&mut line.places.iter().rev().map(|place| (place.x, place.low)));
    let middle = path(&mut line.places.iter().map(|place| (place.x, place.middle)));
    let marks = line.places.iter();
    let marks = marks.map(|place| mark(index, place.x, scale.y(place.middle)));
    format!(
        "<g class=\"{}\"><title>{}</title><path class=\"spread\" d=\"M{forth}L{back}Z\"/>\
         <path class=\"curve\" d=\"M{middle}\"{}/>{}</g>\n",
        color(line.name),
        escape(line.name),
        dash(index),
        marks.collect::<String>()
    )
}

fn dash(index: usize) -> &'static str {
    match index % 4 {
        0 => "",
        1 => " stroke-dasharray=\"7 3\"",
        2 => " stroke-dasharray=\"2 3\"",
        _ => " stroke-dasharray=\"8 3 2 3\"",
    }
}

/// A shape for each contender.
fn mark(index: usize, x: f64, y: f64) -> String {
    let path = match index % 4 {
        0 => return format!("<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        1 => format!("M{:.1} {:.1}h7v7h-7Z", x - 3.5, y - 3.5),
        2 => format!("M{x:.1} {:.1}l4.4 7.8h-8.8Z", y - 4.8),
        _ => format!("M{x:.1} {:.1}l4.6 4.6l-4.6 4.6l-4.6-4.6Z", y - 4.6),
    };
    format!("<path class=\"mark\" d=\"{path}\"/>")
}

/// A logarithmic scale upwards.
struct Decades {
    low: f64,
    high: f64,
}

impl Decades {
    /// From just below the lowest value to just above the highest, at least a factor of
    /// four: noise must not look like growth.
    fn of(low: f64, high: f64) -> Decades {
        let (low, high) = (low / 1.15, high * 1.15);
        let missing = (4.0 / (high / low)).max(1.0).sqrt();
        Decades {
            low: low / missing,
            high: high * missing,
        }
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        let height = HEIGHT - TOP - BOTTOM;
        HEIGHT - BOTTOM - height * share.clamp(0.0, 1.0)
    }

    /// Powers of ten, and 2 and 5 times as much where there are few of those.
    fn ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = match decades {
            decades if decades > 2.5 => &[1.0],
            decades if decades > 1.2 => &[1.0, 3.0],
            _ => &[1.0, 2.0, 5.0],
        };
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        powers
            .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

/// A value on the vertical axis, without digits that say nothing.
fn tick_name(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds if value < 1e3 => format!("{value} ns"),
        Unit::Nanoseconds if value < 1e6 => format!("{} µs", value / 1e3),
        Unit::Nanoseconds => format!("{} ms", value / 1e6),
        Unit::PerSecond => format!("{} M/s", value / 1e6),
        unit => report::show(value, unit),
    }
}

/// A number of workers or tasks, short.
fn count_name(count: u64) -> String {
    match count {
        1_000_000.. => format!("{} M", count / 1_000_000),
        1_000.. => format!("{} k", count / 1_000),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_does_not_fill_the_height() {
        let scale = Decades::of(100.0, 101.0);
        assert!(scale.high / scale.low >= 4.0);
        assert!(scale.y(100.0) - scale.y(101.0) < 5.0);
        assert!(scale.ticks().contains(&100.0));
    }

    #[test]
    fn greater_values_lie_higher() {
        let scale = Decades::of(10.0, 10_000.0);
        assert!(scale.y(10_000.0) < scale.y(10.0));
        assert_eq!(scale.ticks(), [10.0, 100.0, 1_000.0, 10_000.0]);
    }

    #[test]
    fn counts_are_short() {
        assert_eq!(count_name(8), "8");
        assert_eq!(count_name(10_000), "10 k");
        assert_eq!(count_name(1_000_000), "1 M");
    }
}
