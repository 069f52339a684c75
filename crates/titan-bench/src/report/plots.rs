//! Plots as SVG text: bars of a measure, and lines of series.
//!
//! Colours are those of Okabe and Ito, which people with any kind of colour blindness can tell
//! apart; in a page they follow its style sheet. No plot depends on them: every line ends in a
//! name, every bar is next to its name.

use std::fmt::Write;

use super::html::escaped;
use crate::results::{Spread, X};
use crate::units::Unit;

const WIDTH: f64 = 760.0;
const INK: &str = "var(--ink,#1A1C20)";
const FAINT: &str = "var(--faint,#5C626B)";
const GRID: &str = "var(--grid,#DDE0E5)";
const PAPER: &str = "var(--paper,#FFFFFF)";

/// Colours by place.
const COLOURS: [&str; 7] = [
    "var(--blue,#0072B2)",
    "var(--vermilion,#D55E00)",
    "var(--orange,#E69F00)",
    "var(--green,#009E73)",
    "var(--purple,#CC79A7)",
    "var(--sky,#56B4E9)",
    "var(--grey,#8A8F98)",
];

fn colour(place: usize) -> &'static str {
    COLOURS[place.min(COLOURS.len() - 1)]
}

/// Bars from zero on, in groups: each after the name of its variant and before its value. A line
/// over a bar shows the range of the rounds. The number beside a variant is its place. `None` if
/// there is no bar.
pub(super) fn bars(title: &str, unit: Unit, groups: &[Group<'_>]) -> Option<String> {
    let all = || groups.iter().flat_map(|(_, bars)| bars);
    let most = all().map(|(.., value)| value.most).reduce(f64::max)?;
    let names = all().map(|(_, name, _)| width(name)).fold(0.0, f64::max);
    let labels = all().map(|(.., value)| width(&value.show(unit)));
    let (left, right) = (names + 24.0, WIDTH - labels.fold(0.0, f64::max) - 12.0);
    let at = |value: f64| left + value / most.max(1e-12) * (right - left);
    let (mut svg, mut y) = (Svg::default(), 24.0);
    svg.text(8.0, 11.0, "start", FAINT, title);
    for (group, bars) in groups {
        svg.text(8.0, y + 15.0, "start", INK, group);
        y += 24.0;
        for (place, name, value) in bars {
            let (middle, end) = (y + 9.0, at(value.median).max(left + 1.0));
            svg.text(left - 6.0, middle, "end", INK, name);
            svg.add(format_args!(
                "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" style=\"fill:{}\"/>",
                y + 2.0,
                end - left,
                colour(*place)
            ));
            if value.least < value.most {
                svg.line(
                    [(at(value.least), middle), (at(value.most), middle)],
                    INK,
                    1,
                );
            }
            let beside = at(value.most).max(end) + 6.0;
            svg.text(beside, middle, "start", INK, &value.show(unit));
            y += 17.0;
        }
    }
    Some(svg.whole(y + 8.0))
}

/// A name, and bars by place, variant and value.
pub(super) type Group<'a> = (&'a str, Vec<(usize, &'a str, Spread)>);

/// A line: place, variant and points.
pub(super) type Line<'a> = (usize, &'a str, &'a [(f64, f64)]);

/// Lines over seconds from zero on, or over percentiles on logarithmic axes on which every nine has
/// the same length. `None` if there is no point to draw.
pub(super) fn lines(title: &str, unit: Unit, x: X, lines: &[Line<'_>]) -> Option<String> {
    let length = |(at, value): (f64, f64)| match x {
        X::Seconds => (at, value),
        X::Percentile => (-(1.0 - at / 100.0).log10(), value.log10()),
    };
    let drawn = lines.iter().map(|(place, name, points)| {
        let points = points.iter().copied().map(length);
        let points = points.filter(|(x, y)| x.is_finite() && y.is_finite());
        (*place, *name, points.collect::<Vec<_>>())
    });
    let drawn: Vec<_> = drawn.filter(|(.., points)| !points.is_empty()).collect();
    let all = || drawn.iter().flat_map(|(.., points)| points);
    let across = all().map(|(x, _)| *x).reduce(f64::max)?.max(1e-9);
    let top = all().map(|(_, y)| *y).reduce(f64::max)?;
    let base = match x {
        X::Seconds => 0.0,
        X::Percentile => all().map(|(_, y)| *y).fold(top, f64::min),
    };
    let top = top.max(base + 1e-9);
    let names = drawn.iter().map(|(_, name, _)| width(name));
    let (left, right) = (76.0, WIDTH - names.fold(0.0, f64::max) - 16.0);
    let (high, low) = (28.0, 274.0);
    let place_of = |(x, y): (f64, f64)| {
        let up = (y - base) / (top - base) * (low - high);
        (left + x / across * (right - left), low - up)
    };
    let mut svg = Svg::default();
    svg.text(8.0, 11.0, "start", FAINT, title);
    for at in (0..=4).map(|n| base + (top - base) * f64::from(n) / 4.0) {
        let (_, y) = place_of((0.0, at));
        let value = match x {
            X::Seconds => at,
            X::Percentile => 10_f64.powf(at),
        };
        svg.line([(left, y), (right, y)], GRID, 1);
        svg.text(left - 6.0, y, "end", FAINT, &unit.show(value));
    }
    let ticks: Vec<(f64, String)> = match x {
        X::Seconds => (0..=5)
            .map(|n| across * f64::from(n) / 5.0)
            .map(|at| (at, Unit::Number.show(at)))
            .collect(),
        X::Percentile => [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999]
            .map(|at| (length((at, 1.0)).0, format!("{at} %")))
            .into(),
    };
    for (at, text) in ticks.into_iter().filter(|(at, _)| *at <= across * 1.001) {
        let (x, _) = place_of((at, base));
        svg.line([(x, high), (x, low)], GRID, 1);
        svg.text(x, low + 14.0, "middle", FAINT, &text);
    }
    let unit_of_x = match x {
        X::Seconds => "seconds",
        X::Percentile => "percentile",
    };
    svg.text((left + right) / 2.0, low + 34.0, "middle", FAINT, unit_of_x);
    let mut ends = Vec::new();
    for (place, name, points) in &drawn {
        let points = points.iter().map(|point| place_of(*point));
        let points: Vec<(f64, f64)> = points.collect();
        ends.extend(points.last().map(|(_, y)| (*y, *place, *name)));
        svg.line(points, colour(*place), 2);
    }
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = f64::MIN;
    for (y, place, name) in ends {
        free = y.max(free);
        svg.text(right + 8.0, free, "start", colour(place), name);
        free += 15.0;
    }
    Some(svg.whole(320.0))
}

/// An estimate: the reader's fonts are not known here.
fn width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.0
}

/// The elements of a plot.
#[derive(Default)]
struct Svg(String);

impl Svg {
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{element}");
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, colour: &str, text: &str) {
        let text = escaped(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" dy=\".35em\" text-anchor=\"{anchor}\" \
             style=\"fill:{colour}\">{text}</text>"
        ));
    }

    fn line(&mut self, points: impl IntoIterator<Item = (f64, f64)>, colour: &str, width: u32) {
        let points = points.into_iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
        let points: Vec<String> = points.collect();
        self.add(format_args!(
            "<polyline points=\"{}\" style=\"fill:none;stroke:{colour};stroke-width:{width}\"/>",
            points.join(" ")
        ));
    }

    fn whole(self, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" style=\"fill:{PAPER}\"/>\n{}</svg>\n",
            self.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_names_and_values() {
        let value = |values: &[f64]| Spread::of(values.iter().copied()).unwrap();
        let groups = vec![
            (
                "fill",
                vec![
                    (0, "titan", value(&[1.0, 2.0])),
                    (4, "<lmdb>", value(&[0.0])),
                ],
            ),
            ("nothing", Vec::new()),
        ];
        let svg = bars("bytes", Unit::Number, &groups).unwrap();
        for part in [
            "fill",
            "titan",
            "&lt;lmdb&gt;",
            "1.50 (1.00–2.00)",
            "#CC79A7",
        ] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
        assert!(bars("bytes", Unit::Number, &groups[1..]).is_none());
    }

    #[test]
    fn lines_are_drawn_and_named() {
        let points = [(0.0, 1.0), (50.0, 100.0)];
        let all = [(0, "titan", &points[..]), (1, "lmdb", &points[..])];
        for x in [X::Seconds, X::Percentile] {
            let svg = lines("latency", Unit::Micros, x, &all).unwrap();
            for part in ["titan", "lmdb", "latency", "100 µs", "polyline"] {
                assert!(svg.contains(part), "{part} is missing in {svg}");
            }
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
        // Zero has no logarithm.
        let nothing = [(0, "titan", &[(1.0, 0.0)][..])];
        assert!(lines("latency", Unit::Micros, X::Percentile, &nothing).is_none());
        assert!(lines("latency", Unit::Micros, X::Seconds, &nothing).is_some());
        assert!(lines("latency", Unit::Micros, X::Seconds, &[]).is_none());
    }
}
