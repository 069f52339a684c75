//! The history of space as a picture of the page: areas on top of each other.

use std::fmt::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use super::history::{Sample, thinned};
use crate::output;

/// Width and height of the picture, in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 240.0;
/// The most samples that are drawn: more than a screen has columns is of no use.
const MOST: usize = 500;

/// A part of the directory: its CSS class, its name, its bytes in a sample.
type Layer = (&'static str, &'static str, fn(&Sample) -> u64);

/// The parts, the lowest first. Together they are all bytes.
pub(super) const LAYERS: [Layer; 5] = [
    ("live", "values", |s| s.blob_bytes - garbage(s)),
    ("garbage", "garbage", garbage),
    ("sst", "SST", |s| s.sst_bytes),
    ("wal", "WAL", |s| s.wal_bytes),
    ("other", "other", |s| s.other_bytes),
];

/// The garbage that blob files have; bytes freed as holes are no part of them.
fn garbage(sample: &Sample) -> u64 {
    sample.garbage_blob_bytes.min(sample.blob_bytes)
}

/// Writes the section of the page; nothing without samples.
pub(super) fn write(samples: &[Sample], page: &mut String) -> fmt::Result {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Ok(());
    };
    let largest = samples.iter().max_by_key(|sample| sample.total_bytes());
    let largest = largest.unwrap_or(last);
    writeln!(
        page,
        "<h2>How it went</h2>\n<p>{} samples from {} to {}: {} at first, {} now; most at {}: {}, the height of \
         the picture. Between samples it is a guess.</p>",
        output::count(samples.len() as u64),
        time(first),
        time(last),
        output::size(first.total_bytes()),
        output::size(last.total_bytes()),
        time(largest),
        output::size(largest.total_bytes()),
    )?;
    page.push_str("<p>");
    for (class, name, _) in LAYERS {
        write!(page, "<span class=\"key {class}\"></span>{name} ")?;
    }
    writeln!(
        page,
        "</p>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"Bytes on disk over time\">"
    )?;
    write_areas(&thinned(samples, MOST), largest.total_bytes(), page)?;
    page.push_str("</svg>\n");
    Ok(())
}

fn write_areas(samples: &[Sample], most: u64, page: &mut String) -> fmt::Result {
    let begin = samples.first().map_or(0, |s| s.unix_seconds);
    let length = samples.last().map_or(0, |s| s.unix_seconds - begin).max(1);
    let x = |sample: &Sample| WIDTH * (sample.unix_seconds - begin) as f64 / length as f64;
    let y = |bytes: u64| HEIGHT * (1.0 - bytes as f64 / most.max(1) as f64);
    let mut below = vec![0_u64; samples.len()];
    for (class, name, bytes) in LAYERS {
        let lower = below.clone();
        for (below, sample) in below.iter_mut().zip(samples) {
            *below = below.saturating_add(bytes(sample));
        }
        write!(page, "<polygon style=\"fill:var(--{class})\" points=\"")?;
        for (sample, bytes) in samples.iter().zip(&below) {
            write!(page, "{:.1},{:.1} ", x(sample), y(*bytes))?;
        }
        for (sample, bytes) in samples.iter().zip(&lower).rev() {
            write!(page, "{:.1},{:.1} ", x(sample), y(*bytes))?;
        }
        writeln!(page, "\"><title>{name}</title></polygon>")?;
    }
    Ok(())
}

/// The time of a sample, in words that need no escapes.
fn time(sample: &Sample) -> String {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(sample.unix_seconds));
    // A file may have any number; the format ends with the year 9999.
    let time = time.filter(|_| sample.unix_seconds < 253_402_300_800);
    time.map_or_else(
        || format!("second {}", sample.unix_seconds),
        |time| humantime::format_rfc3339_seconds(time).to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(unix_seconds: u64, blob_bytes: u64) -> Sample {
        Sample {
            unix_seconds,
            sst_bytes: 10,
            blob_bytes,
            garbage_blob_bytes: 20,
            wal_bytes: 3,
            other_bytes: 7,
        }
    }

    #[test]
    fn layers_are_all_bytes_and_the_largest_sample_has_the_height() {
        let samples = [sample(100, 80), sample(150, 180), sample(300, 15)];
        for sample in &samples {
            let sum: u64 = LAYERS.iter().map(|(_, _, bytes)| bytes(sample)).sum();
            assert_eq!(sum, sample.total_bytes());
        }
        let mut page = String::new();
        write(&samples, &mut page).unwrap();
        assert_eq!(page.matches("<polygon").count(), LAYERS.len());
        // The second of three, after a quarter of the time.
        assert!(page.contains(" 250.0,0.0 1000.0,"), "{page}");
        assert!(
            page.contains("1970-01-01T00:01:40Z to 1970-01-01T00:05:00Z"),
            "{page}"
        );
    }

    #[test]
    fn one_sample_and_none_are_no_fault() {
        let mut page = String::new();
        write(&[], &mut page).unwrap();
        assert_eq!(page, "");
        let odd = sample(u64::MAX, 0);
        write(&[odd], &mut page).unwrap();
        assert!(
            page.contains("1 samples from second 18446744073709551615"),
            "{page}"
        );
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }
}
