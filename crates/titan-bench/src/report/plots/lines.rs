//! Lines over axes: one per engine, with its mark along it and its name at its end.

use plotters::prelude::PathElement;
use plotters::style::Color;

use super::axis::{Axis, Scale};
use super::{Canvas, Side, WIDTH, drawn, fitted, style, text_width, write};

/// The points of a line.
pub(crate) struct Line<'a> {
    pub(crate) engine: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A plot of lines.
pub(crate) struct Lines<'a> {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line<'a>>,
}

const HEIGHT: u32 = 320;
const LEFT: i32 = 76;
const TOP: i32 = 28;
const BOTTOM: i32 = HEIGHT as i32 - 46;

/// Pixels between the names at the ends of two lines.
const NAME_HEIGHT: i32 = 15;

/// Marks along a line.
const MARKS: usize = 7;

impl Lines<'_> {
    /// `None` if no line has a point.
    pub(crate) fn draw(&self) -> anyhow::Result<Option<String>> {
        let lines: Vec<(&str, Vec<(f64, f64)>)> = (self.lines.iter())
            .map(|line| (line.engine, self.lengths(&line.points)))
            .filter(|(_, lengths)| !lengths.is_empty())
            .collect();
        if lines.is_empty() {
            return Ok(None);
        }
        let all = || lines.iter().flat_map(|(_, points)| points);
        let names = lines.iter().map(|(name, _)| text_width(name)).max();
        let frame = Frame {
            x: self.x.range(all().map(|(x, _)| *x)),
            y: self.y.range(all().map(|(_, y)| *y)),
            right: WIDTH as i32 - names.unwrap_or(0) - 30,
        };
        drawn(HEIGHT, |canvas| {
            self.draw_axes(canvas, &frame)?;
            draw_lines(canvas, &frame, &lines)
        })
        .map(Some)
    }

    fn lengths(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let lengths = points
            .iter()
            .map(|(x, y)| (self.x.length(*x), self.y.length(*y)));
        lengths.filter_map(|(x, y)| Some((x?, y?))).collect()
    }

    fn draw_axes(&self, canvas: &Canvas<'_>, frame: &Frame) -> anyhow::Result<()> {
        let line = |from, to, colour: &style::Colour| {
            canvas.draw(&PathElement::new(vec![from, to], colour.light))
        };
        let faint = style::FAINT.light;
        for (at, text) in self.y.ticks(frame.y) {
            let y = frame.pixel((frame.x.0, at)).1;
            line((LEFT, y), (frame.right, y), &style::GRID)?;
            write(canvas, &text, (LEFT - 6, y), Side::UpTo, faint)?;
        }
        let ticks = self.x.ticks(frame.x);
        let room = (frame.right - LEFT) / ticks.len().max(1) as i32 - 6;
        for (at, text) in &ticks {
            // Step names are written in the middle, with separators at their ends.
            let parted = match self.x.scale {
                Scale::Steps(_) => at + 0.5,
                Scale::Linear | Scale::Log | Scale::Nines => *at,
            };
            let x = frame.pixel((parted, frame.y.0)).0;
            line((x, TOP), (x, BOTTOM), &style::GRID)?;
            let below = (frame.pixel((*at, frame.y.0)).0, BOTTOM + 13);
            write(canvas, &fitted(text, room), below, Side::About, faint)?;
        }
        line((LEFT, BOTTOM), (frame.right, BOTTOM), &style::FAINT)?;
        write(canvas, &self.y.name, (8, 11), Side::From, faint)?;
        let middle = ((LEFT + frame.right) / 2, BOTTOM + 34);
        write(canvas, &self.x.name, middle, Side::About, faint)
    }
}

/// Maps lengths to the canvas.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
    right: i32,
}

impl Frame {
    fn pixel(&self, (x, y): (f64, f64)) -> (i32, i32) {
        let across = (x - self.x.0) / (self.x.1 - self.x.0) * f64::from(self.right - LEFT);
        let up = (y - self.y.0) / (self.y.1 - self.y.0) * f64::from(BOTTOM - TOP);
        (LEFT + across.round() as i32, BOTTOM - up.round() as i32)
    }
}

fn draw_lines(
    canvas: &Canvas<'_>,
    frame: &Frame,
    lines: &[(&str, Vec<(f64, f64)>)],
) -> anyhow::Result<()> {
    let mut ends = Vec::new();
    for (place, (engine, points)) in lines.iter().enumerate() {
        let style = style::of(engine);
        let pixels: Vec<(i32, i32)> = points.iter().map(|point| frame.pixel(*point)).collect();
        ends.extend(pixels.last().map(|(x, y)| (*y, *x, *engine)));
        let every = (pixels.len() / MARKS).max(1);
        // Offset from engine to engine, so that marks of overlapping lines are next to each
        // other.
        let first = every * place / lines.len();
        let marked: Vec<_> = pixels.iter().skip(first).step_by(every).copied().collect();
        canvas.draw(&PathElement::new(pixels, style.line()))?;
        for at in marked {
            style.mark(canvas, at)?;
        }
    }
    ends.sort_unstable();
    let heights = spaced(ends.iter().map(|(y, ..)| *y));
    for ((y, x, engine), height) in ends.into_iter().zip(heights) {
        let style = style::of(engine);
        let leader = vec![(x, y), (frame.right + 5, height)];
        canvas.draw(&PathElement::new(leader, style.colour.light.mix(0.5)))?;
        style.mark(canvas, (frame.right + 11, height))?;
        let beside = (frame.right + 21, height);
        write(canvas, engine, beside, Side::From, style::INK.light)?;
    }
    Ok(())
}

/// Heights near these, which ascend, but far enough apart for a name at each, and on the canvas.
fn spaced(wanted: impl Iterator<Item = i32>) -> Vec<i32> {
    let mut heights: Vec<i32> = wanted.collect();
    for at in 1..heights.len() {
        heights[at] = heights[at].max(heights[at - 1] + NAME_HEIGHT);
    }
    let mut room = BOTTOM;
    for height in heights.iter_mut().rev() {
        *height = (*height).min(room);
        room = *height - NAME_HEIGHT;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::super::super::units;
    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis {
            name: "<name>".to_owned(),
            scale,
            show: units::number,
        }
    }

    fn plot(lines: Vec<Line<'_>>) -> Option<String> {
        let (x, y) = (axis(Scale::Linear), axis(Scale::Log));
        Lines { x, y, lines }.draw().unwrap()
    }

    #[test]
    fn lines_are_drawn_and_named() {
        let line = |engine| Line {
            engine,
            points: vec![(0.0, 1.0), (1.0, 100.0)],
        };
        let svg = plot(vec![line("titan"), line("lmdb")]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for part in ["titan", "lmdb", "&lt;name&gt;", "#0072B2", "polyline"] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
    }

    #[test]
    fn one_point_is_enough_and_none_is_no_plot() {
        let line = |points| Line {
            engine: "titan",
            points,
        };
        assert!(plot(vec![line(vec![(1.0, 1.0)])]).is_some());
        assert!(plot(vec![line(Vec::new())]).is_none());
        // Zero has no logarithm.
        assert!(plot(vec![line(vec![(1.0, 0.0)])]).is_none());
        assert!(plot(Vec::new()).is_none());
    }

    #[test]
    fn names_do_not_lie_on_each_other() {
        let heights = spaced([5, 6, 7, 200, BOTTOM, BOTTOM].into_iter());
        assert!(heights.windows(2).all(|two| two[1] - two[0] >= NAME_HEIGHT));
        assert!(heights.iter().all(|height| *height <= BOTTOM));
    }
}
