//! Plots as SVG text: [`lines`] and [`bars`], drawn with the colours and marks of [`style`] on the
//! axes of [`axis`].
//!
//! A plot has fixed colours, those for light paper, so that its file can be shown anywhere. A page
//! that inlines it maps them to others by [`style::COLOURS`]. No plot depends on its colours:
//! every line ends in a name and has its own marks, every bar is next to its name.

pub(crate) mod axis;
pub(crate) mod bars;
pub(crate) mod lines;
pub(crate) mod style;

use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, IntoDrawingArea, SVGBackend, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{IntoFont, RGBColor, TextStyle};

/// The canvas of all plots, in pixels.
pub(crate) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Width of every plot in pixels.
const WIDTH: u32 = 760;

/// Size of all text, in pixels.
const FONT_SIZE: i32 = 12;

/// Calls `draw` with a canvas of this height.
fn drawn(
    height: u32,
    draw: impl FnOnce(&Canvas<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        canvas.fill(&style::PAPER.light)?;
        draw(&canvas)?;
        canvas.present()?;
    }
    Ok(svg)
}

/// The horizontal alignment of text at its point.
#[derive(Clone, Copy)]
enum Side {
    From,
    About,
    UpTo,
}

fn font(colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", FONT_SIZE).into_font().color(&colour)
}

fn write(
    canvas: &Canvas<'_>,
    text: &str,
    at: (i32, i32),
    side: Side,
    colour: RGBColor,
) -> anyhow::Result<()> {
    let across = match side {
        Side::From => HPos::Left,
        Side::About => HPos::Center,
        Side::UpTo => HPos::Right,
    };
    let font = font(colour).pos(Pos::new(across, VPos::Center));
    canvas.draw(&Text::new(text.to_owned(), at, font))?;
    Ok(())
}

/// An estimate: the reader's fonts are not known here.
fn text_width(text: &str) -> i32 {
    text.chars().count() as i32 * 7
}

/// The text, or as much of it as fits into this many pixels.
fn fitted(text: &str, room: i32) -> String {
    if text_width(text) <= room {
        return text.to_owned();
    }
    let kept = (room / text_width("x") - 1).max(1) as usize;
    text.chars().take(kept).chain(['…']).collect()
}
