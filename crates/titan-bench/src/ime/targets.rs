//! Targets of the range cache, and the figures that it reached.

use serde::Serialize;

use super::results::Measured;

/// A target beside what was measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Judged {
    pub(super) workload: &'static str,
    pub(super) what: &'static str,
    /// The most that is allowed.
    pub(super) most: f64,
    pub(super) measured: f64,
    pub(super) is_met: bool,
}

/// A figure of a side.
type Figure = fn(&Measured) -> f64;

fn next(side: &Measured) -> f64 {
    side.figures.next_per_processed
}

fn reader_cpu(side: &Measured) -> f64 {
    side.figures.reader_cpu_percent
}

fn mean(side: &Measured) -> f64 {
    side.figures.mean_us
}

fn p99(side: &Measured) -> f64 {
    side.figures.p99_us
}

fn all_cpu(side: &Measured) -> f64 {
    let figures = &side.figures;
    figures.reader_cpu_percent
        + figures.writer_cpu_percent
        + figures.cache_cpu_percent
        + figures.background_cpu_percent
}

fn commit_mean(side: &Measured) -> f64 {
    side.figures.commit_mean_us
}

fn commit_p99(side: &Measured) -> f64 {
    side.figures.commit_p99_us
}

/// Figures of the side with the cache, divided by those of the store alone, and the most that they
/// may be.
const RATIOS: [(&str, &str, Figure, f64); 11] = [
    (
        "W1",
        "processor time of readers, ratio",
        reader_cpu,
        1.0 / 3.0,
    ),
    ("W1", "mean latency, ratio", mean, 0.3),
    ("W1", "p99, ratio", p99, 0.5),
    ("W3", "processor time of readers, ratio", reader_cpu, 0.82),
    ("W3", "mean latency, ratio", mean, 0.72),
    ("W4", "processor time of readers, ratio", reader_cpu, 1.03),
    ("W4", "processor time of all, ratio", all_cpu, 1.03),
    ("W4", "mean latency, ratio", mean, 1.03),
    ("W4", "p99, ratio", p99, 1.03),
    ("W4", "mean latency of commits, ratio", commit_mean, 1.03),
    ("W4", "p99 of commits, ratio", commit_p99, 1.03),
];

/// Steps for a row with the cache, when the store alone takes those that were published.
const STEPS: f64 = 4.0;
/// Seconds until the hit ratio is nine tenths of its last one.
const SECONDS_TO_HITS: f64 = 30.0;
/// The phases for which that is asked.
const HOT_AGAIN: [&str; 3] = ["restart", "hot spot moves", "hot spot moves back"];

/// Judges what was measured. A workload that has not run has no judgement.
pub(super) fn judge(measured: &[Measured]) -> Vec<Judged> {
    let side = |workload: &str, variant: &str| {
        let mut sides = measured.iter();
        sides.find(|side| side.name == workload && side.variant == variant)
    };
    let judged = |workload, what, most, measured: f64| Judged {
        workload,
        what,
        most,
        measured,
        is_met: measured <= most,
    };
    let mut all = Vec::new();
    if let Some(on) = side("W1", "on") {
        all.push(judged(
            "W1",
            "steps for a row with the cache",
            STEPS,
            next(on),
        ));
    }
    for (workload, what, figure, most) in RATIOS {
        if let Some((on, off)) = side(workload, "on").zip(side(workload, "off")) {
            let ratio = figure(on) / figure(off).max(1e-9);
            all.push(judged(workload, what, most, ratio));
        }
    }
    for phase in side("W7", "on").iter().flat_map(|on| &on.phases) {
        let named = HOT_AGAIN.iter().find(|name| **name == phase.name);
        if let (Some(name), Some(seconds)) = (named, phase.seconds_to_hits) {
            all.push(judged("W7", name, SECONDS_TO_HITS, seconds));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::measured;
    use super::*;

    #[test]
    fn targets_are_ratios_to_the_store_alone() {
        let (off, mut on) = (measured("W3", "off"), measured("W3", "on"));
        on.figures.mean_us = off.figures.mean_us * 0.5;
        let judged = judge(&[off, on]);
        let met: Vec<bool> = judged.iter().map(|judged| judged.is_met).collect();
        assert_eq!(met, [false, true]);
        assert_eq!(judged[1].measured, 0.5);
        assert!(judge(&[measured("W3", "on")]).is_empty());
    }
}
