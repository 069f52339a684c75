//! Colours and marks. An engine has the same in every plot of every report.
//!
//! The colours are those of Okabe and Ito, which people with any kind of colour blindness can tell
//! apart.

use plotters::prelude::{Circle, Cross, Polygon, TriangleMarker};
use plotters::style::{Color, RGBColor, ShapeStyle};

use super::Canvas;

/// One colour on light and on dark paper.
pub(crate) struct Colour {
    /// The name of the variable in style sheets.
    pub(crate) name: &'static str,
    pub(crate) light: RGBColor,
    pub(crate) dark: RGBColor,
}

const fn colour(name: &'static str, light: u32, dark: u32) -> Colour {
    const fn rgb(hex: u32) -> RGBColor {
        RGBColor((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
    }
    Colour {
        name,
        light: rgb(light),
        dark: rgb(dark),
    }
}

pub(crate) static PAPER: Colour = colour("paper", 0xff_ff_ff, 0x16_18_1c);
pub(crate) static INK: Colour = colour("ink", 0x1a_1c_20, 0xe6_e8_eb);
pub(crate) static FAINT: Colour = colour("faint", 0x5c_62_6b, 0xa2_a9_b3);
pub(crate) static GRID: Colour = colour("grid", 0xdd_e0_e5, 0x33_38_40);
static BLUE: Colour = colour("blue", 0x00_72_b2, 0x4a_a8_e8);
static VERMILION: Colour = colour("vermilion", 0xd5_5e_00, 0xf0_7f_3c);
static ORANGE: Colour = colour("orange", 0xe6_9f_00, 0xf2_bb_45);
static GREEN: Colour = colour("green", 0x00_9e_73, 0x2f_c4_9a);
static PURPLE: Colour = colour("purple", 0xcc_79_a7, 0xe3_9c_c4);
static SKY: Colour = colour("sky", 0x56_b4_e9, 0x9a_d6_f7);
static GREY: Colour = colour("grey", 0x8a_8f_98, 0x8b_91_9b);

/// All colours.
pub(crate) static COLOURS: [&Colour; 11] = [
    &PAPER, &INK, &FAINT, &GRID, &BLUE, &VERMILION, &ORANGE, &GREEN, &PURPLE, &SKY, &GREY,
];

#[derive(Clone, Copy)]
enum Mark {
    Disc,
    Triangle,
    Square,
    Diamond,
    Cross,
    Ring,
    Dart,
}

/// The colour and mark of an engine.
pub(crate) struct Style {
    pub(crate) colour: &'static Colour,
    mark: Mark,
}

/// Engines, and the sides of the experiment of the in-memory engine. The last one is for all that
/// this program does not know.
static STYLES: [(&str, Style); 10] = [
    ("titan", style(&BLUE, Mark::Disc)),
    ("rocksdb", style(&VERMILION, Mark::Triangle)),
    ("rocksdb-blob", style(&ORANGE, Mark::Square)),
    ("fjall", style(&GREEN, Mark::Diamond)),
    ("lmdb", style(&PURPLE, Mark::Cross)),
    ("redb", style(&SKY, Mark::Ring)),
    ("off", style(&VERMILION, Mark::Triangle)),
    ("on", style(&BLUE, Mark::Disc)),
    ("more-block-cache", style(&GREEN, Mark::Diamond)),
    ("", style(&GREY, Mark::Dart)),
];

const fn style(colour: &'static Colour, mark: Mark) -> Style {
    Style { colour, mark }
}

/// The style of this engine.
pub(crate) fn of(engine: &str) -> &'static Style {
    let known = STYLES.iter().position(|(name, _)| *name == engine);
    &STYLES[known.unwrap_or(STYLES.len() - 1)].1
}

/// In the notation of SVG and style sheets.
pub(crate) fn hex(colour: RGBColor) -> String {
    let RGBColor(red, green, blue) = colour;
    format!("#{red:02X}{green:02X}{blue:02X}")
}

impl Style {
    pub(super) fn line(&self) -> ShapeStyle {
        self.colour.light.stroke_width(2)
    }

    /// Draws the engine's mark around this pixel.
    pub(super) fn mark(&self, canvas: &Canvas<'_>, at: (i32, i32)) -> anyhow::Result<()> {
        let full = self.colour.light.filled();
        let around = |corners: [(i32, i32); 4]| {
            let corners = corners.map(|(x, y)| (at.0 + x, at.1 + y));
            Polygon::new(corners.to_vec(), full)
        };
        match self.mark {
            Mark::Disc => canvas.draw(&Circle::new(at, 4, full)),
            Mark::Ring => {
                canvas.draw(&Circle::new(at, 4, PAPER.light.filled()))?;
                canvas.draw(&Circle::new(at, 4, self.line()))
            }
            Mark::Triangle => canvas.draw(&TriangleMarker::new(at, 6, full)),
            Mark::Cross => canvas.draw(&Cross::new(at, 4, self.line())),
            Mark::Square => canvas.draw(&around([(-4, -4), (4, -4), (4, 4), (-4, 4)])),
            Mark::Diamond => canvas.draw(&around([(0, -6), (6, 0), (0, 6), (-6, 0)])),
            Mark::Dart => canvas.draw(&around([(-5, -4), (0, -1), (5, -4), (0, 6)])),
        }?;
        Ok(())
    }
}
