//! Bars from left to right, in groups: each after the name of its engine and before its value.

use plotters::element::DashedPathElement;
use plotters::prelude::{PathElement, Rectangle};
use plotters::style::Color;

use super::super::figures::Spread;
use super::axis::{Axis, Scale};
use super::{Canvas, Side, WIDTH, drawn, style, text_width, write};

/// A bar, whose end is the median.
pub(crate) struct Bar<'a> {
    pub(crate) engine: &'a str,
    pub(crate) value: Spread,
}

/// A plot of bars from zero on.
pub(crate) struct Bars<'a> {
    pub(crate) axis: Axis,
    pub(crate) groups: Vec<(&'a str, Vec<Bar<'a>>)>,
    /// A value to compare all bars with, and its name.
    pub(crate) limit: Option<(f64, &'static str)>,
}

const TOP: i32 = 30;
const GROUP_HEIGHT: i32 = 24;
const BAR_HEIGHT: i32 = 17;
/// From the top of a bar's row to the bar.
const GAP: i32 = 3;

impl<'a> Bars<'a> {
    /// `None` if there is no bar.
    pub(crate) fn draw(&self) -> anyhow::Result<Option<String>> {
        let groups: Vec<_> = (self.groups.iter())
            .filter(|(_, bars)| !bars.is_empty())
            .collect();
        let bars = || groups.iter().flat_map(|(_, bars)| bars);
        let (Some(name), Some(label)) = (
            bars().map(|bar| text_width(bar.engine)).max(),
            bars().map(|bar| text_width(&self.label(bar))).max(),
        ) else {
            return Ok(None);
        };
        let ends = bars()
            .map(|bar| bar.value.most)
            .chain(self.limit.map(|(value, _)| value));
        let (from, to) = self.axis.range(ends);
        let (left, right) = (name + 24, WIDTH as i32 - label - 12);
        let scale = move |value: f64| {
            left + ((value - from) / (to - from) * f64::from(right - left)).round() as i32
        };
        let rows = bars().count() as i32;
        let bottom = TOP + groups.len() as i32 * GROUP_HEIGHT + rows * BAR_HEIGHT + 6;
        drawn(bottom as u32 + 28, |canvas| {
            self.draw_axis(canvas, bottom, scale, (from, to))?;
            let mut y = TOP;
            for (group, bars) in &groups {
                write(canvas, group, (8, y + 15), Side::From, style::INK.light)?;
                y += GROUP_HEIGHT;
                for bar in bars {
                    self.draw_bar(canvas, bar, y, scale)?;
                    y += BAR_HEIGHT;
                }
            }
            self.draw_limit(canvas, bottom, scale)
        })
        .map(Some)
    }

    fn label(&self, bar: &Bar<'_>) -> String {
        bar.value.show(self.axis.show)
    }

    fn draw_axis(
        &self,
        canvas: &Canvas<'_>,
        bottom: i32,
        scale: impl Fn(f64) -> i32,
        range: (f64, f64),
    ) -> anyhow::Result<()> {
        let faint = style::FAINT.light;
        write(canvas, &self.axis.name, (8, 11), Side::From, faint)?;
        for (value, text) in self.axis.ticks(range) {
            let x = scale(value);
            let line = PathElement::new(vec![(x, TOP), (x, bottom)], style::GRID.light);
            canvas.draw(&line)?;
            write(canvas, &text, (x, bottom + 13), Side::About, faint)?;
        }
        Ok(())
    }

    fn draw_bar(
        &self,
        canvas: &Canvas<'_>,
        bar: &Bar<'_>,
        top: i32,
        scale: impl Fn(f64) -> i32,
    ) -> anyhow::Result<()> {
        let (from, to) = (scale(0.0), scale(bar.value.median));
        let middle = top + BAR_HEIGHT / 2 + 1;
        let body = [(from, top + GAP), (to.max(from + 1), top + BAR_HEIGHT)];
        let colour = style::of(bar.engine).colour.light;
        canvas.draw(&Rectangle::new(body, colour.filled()))?;
        let (least, most) = (scale(bar.value.least), scale(bar.value.most));
        if least < most {
            let ink = style::INK.light;
            canvas.draw(&PathElement::new(
                vec![(least, middle), (most, middle)],
                ink,
            ))?;
            for x in [least, most] {
                let end = vec![(x, middle - 3), (x, middle + 3)];
                canvas.draw(&PathElement::new(end, ink))?;
            }
        }
        let ink = style::INK.light;
        write(canvas, bar.engine, (from - 6, middle), Side::UpTo, ink)?;
        let beside = (most.max(to) + 6, middle);
        write(canvas, &self.label(bar), beside, Side::From, ink)
    }

    fn draw_limit(
        &self,
        canvas: &Canvas<'_>,
        bottom: i32,
        scale: impl Fn(f64) -> i32,
    ) -> anyhow::Result<()> {
        let Some((value, name)) = self.limit else {
            return Ok(());
        };
        let (x, ink) = (scale(value), style::INK.light);
        let line = DashedPathElement::new([(x, TOP - 8), (x, bottom)], 5, 4, ink);
        canvas.draw(&line)?;
        let text = format!("{name}: {}", (self.axis.show)(value));
        write(canvas, &text, (x, TOP - 16), Side::UpTo, ink)
    }
}

/// An axis for bars.
pub(crate) fn axis(name: &str, show: fn(f64) -> String) -> Axis {
    Axis {
        name: name.to_owned(),
        scale: Scale::Linear,
        show,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::units;
    use super::*;

    #[test]
    fn bars_have_names_and_values() {
        let bar = |engine, values: &[f64]| Bar {
            engine,
            value: Spread::of(values.iter().copied()).unwrap(),
        };
        let bars = Bars {
            axis: axis("bytes", units::number),
            groups: vec![
                ("fill", vec![bar("titan", &[1.0, 2.0]), bar("lmdb", &[0.0])]),
                ("nothing", Vec::new()),
            ],
            limit: Some((5.0, "device")),
        };
        let svg = bars.draw().unwrap().unwrap();
        for part in ["fill", "titan", "1.50 (1.00–2.00)", "device: 5.00", "<rect"] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
        assert!(!svg.contains("nothing"));
        let groups = vec![("nothing", Vec::new())];
        assert!(Bars { groups, ..bars }.draw().unwrap().is_none());
    }
}
