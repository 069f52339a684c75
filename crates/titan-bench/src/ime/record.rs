//! The figures, curves and targets of the experiment, as a report has them.
//!
//! `docs/benchmarks.md` says what they mean. The keys of figures are the names of the fields of
//! [`Figures`].

use super::series::{Figures, Series, seconds_to_hits};
use super::variants::Variant;
use super::workloads::{Window, Workload};
use crate::results::{Measure, Round, Series as Line, Target, X};
use crate::session::Session;
use crate::units::Unit;

/// Key, title, unit and value of a figure.
type Shown = (&'static str, &'static str, Unit, fn(&Figures) -> f64);

#[rustfmt::skip]
const FIGURES: [Shown; 24] = [
    ("next_per_processed", "next / row", Unit::Number, |f| f.next_per_processed),
    ("reader_cpu_percent", "readers' CPU", Unit::Percent, |f| f.reader_cpu_percent),
    ("scanning_cpu_percent", "CPU of scans", Unit::Percent, |f| f.scanning_cpu_percent),
    ("mean_us", "mean latency", Unit::Micros, |f| f.mean_us),
    ("p50_us", "p50 latency", Unit::Micros, |f| f.p50_us),
    ("p99_us", "p99 latency", Unit::Micros, |f| f.p99_us),
    ("p999_us", "p99.9 latency", Unit::Micros, |f| f.p999_us),
    ("max_us", "longest latency", Unit::Micros, |f| f.max_us),
    ("all_mean_us", "mean latency of all jobs", Unit::Micros, |f| f.all_mean_us),
    ("all_p99_us", "p99 latency of all jobs", Unit::Micros, |f| f.all_p99_us),
    ("writer_cpu_percent", "writers' CPU", Unit::Percent, |f| f.writer_cpu_percent),
    ("cache_cpu_percent", "cache's CPU", Unit::Percent, |f| f.cache_cpu_percent),
    ("background_cpu_percent", "other CPU", Unit::Percent, |f| f.background_cpu_percent),
    ("all_cpu_percent", "all CPU", Unit::Percent, Figures::all_cpu_percent),
    ("jobs_per_second", "jobs / s", Unit::Number, |f| f.jobs_per_second),
    ("commits_per_second", "commits / s", Unit::Number, |f| f.commits_per_second),
    ("commit_mean_us", "mean latency of commits", Unit::Micros, |f| f.commit_mean_us),
    ("commit_p99_us", "p99 latency of commits", Unit::Micros, |f| f.commit_p99_us),
    ("seeks_per_processed", "seek / row", Unit::Number, |f| f.seeks_per_processed),
    ("scan_hit_ratio", "scans hit", Unit::Share, |f| f.scan_hit_ratio),
    ("point_hit_ratio", "point reads hit", Unit::Share, |f| f.point_hit_ratio),
    ("scans_not_held_per_second", "scans not held / s", Unit::Number, |f| f.scans_not_held_per_second),
    ("scans_too_old_per_second", "scans too old / s", Unit::Number, |f| f.scans_too_old_per_second),
    ("held_bytes", "held", Unit::Memory, |f| f.held_bytes as f64),
];

/// Figures that are drawn over time, and as bars.
const DRAWN: [&str; 4] = [
    "next_per_processed",
    "reader_cpu_percent",
    "mean_us",
    "scan_hit_ratio",
];

/// Key, title and unit of the figures of a whole run or of a phase.
const OF_RUN: [(&str, &str, Unit); 4] = [
    ("conflicts", "conflicts", Unit::Number),
    ("missed", "jobs never begun", Unit::Number),
    (
        "seconds_to_hits",
        "time until nine tenths of the hits",
        Unit::Seconds,
    ),
    ("last_hit_ratio", "scans hit at the end", Unit::Share),
];

/// The measures, in the order of tables.
pub(super) fn measures() -> Vec<Measure> {
    let figures = FIGURES
        .iter()
        .map(|(key, title, unit, _)| (key, title, unit));
    let of_run = OF_RUN.iter().map(|(key, title, unit)| (key, title, unit));
    let all = figures.chain(of_run).map(|(key, title, unit)| {
        let measure = Measure::new(key, title, *unit);
        match DRAWN.contains(key) {
            true => measure.drawn(),
            false => measure,
        }
    });
    all.collect()
}

/// Ratios of the side with the cache to the store alone, and the most that they may be.
const RATIOS: [(&str, &str, f64); 11] = [
    ("W1", "reader_cpu_percent", 1.0 / 3.0),
    ("W1", "mean_us", 0.3),
    ("W1", "p99_us", 0.5),
    ("W3", "reader_cpu_percent", 0.82),
    ("W3", "mean_us", 0.72),
    ("W4", "reader_cpu_percent", 1.03),
    ("W4", "all_cpu_percent", 1.03),
    ("W4", "mean_us", 1.03),
    ("W4", "p99_us", 1.03),
    ("W4", "commit_mean_us", 1.03),
    ("W4", "commit_p99_us", 1.03),
];

/// Steps for a row with the cache, when the store alone takes those that were published.
const STEPS: f64 = 4.0;
/// Seconds until the hit ratio is nine tenths of its last one.
const SECONDS_TO_HITS: f64 = 30.0;
/// The phases for which that is asked.
const HOT_AGAIN: [&str; 3] = ["restart", "hot spot moves", "hot spot moves back"];

/// Targets of the range cache.
pub(super) fn targets() -> Vec<Target> {
    let target = |name: &str, key: &str, beside: Option<&str>, most| Target {
        name: name.to_owned(),
        key: key.to_owned(),
        variant: Variant::On.name().to_owned(),
        beside: beside.map(str::to_owned),
        at_most: Some(most),
        at_least: None,
    };
    let mut all = vec![target("W1", "next_per_processed", None, STEPS)];
    let ratios = RATIOS.iter();
    all.extend(ratios.map(|(name, key, most)| target(name, key, Some("off"), *most)));
    let phases = HOT_AGAIN.iter();
    all.extend(phases.map(|phase| {
        target(
            &format!("W7: {phase}"),
            "seconds_to_hits",
            None,
            SECONDS_TO_HITS,
        )
    }));
    all
}

/// The part of a run that gives the figures, and a remark if it is not the one that is meant. `off`
/// is the run of the store alone.
pub(super) fn window(workload: &Workload, off: &Series) -> ((f64, f64), Option<String>) {
    let end = off.phases.last().map_or(0.0, |phase| phase.to);
    let (steps, most) = match workload.window {
        Window::Between(from, to) => return ((end * from, end * to), None),
        Window::Crossing(steps) => (steps, (end / 12.0).max(1.0)),
    };
    match off.crossing(steps) {
        Some(at) => (((at - most).max(0.0), (at + most).min(end)), None),
        None => {
            let remark = format!(
                "{}: the store alone did not come to {steps} steps for a row. Its figures are those of the end of \
                 the run.",
                workload.name
            );
            ((end - 2.0 * most, end), Some(remark))
        }
    }
}

/// Records a side of a workload, with the figures of a part of its run, and those of each phase of
/// it. Returns the figures of the part.
pub(super) fn record(
    session: &mut Session,
    workload: &Workload,
    variant: Variant,
    series: &Series,
    (from, to): (f64, f64),
) -> Figures {
    let curve = series.curve();
    // Looks are a little late.
    let figures_of = |from, to: f64| series.figures(from, to + 0.05).unwrap_or_default();
    let round = |figures: &Figures, more: [Option<f64>; 4]| {
        let all = FIGURES
            .iter()
            .map(|(key, .., of)| ((*key).to_owned(), of(figures)));
        let more = OF_RUN.iter().zip(more);
        let more = more.filter_map(|((key, ..), value)| Some(((*key).to_owned(), value?)));
        Round {
            figures: all.chain(more).collect(),
            ..Round::default()
        }
    };
    let figures = figures_of(from, to);
    let done = &series.done;
    let of_run = [
        Some(done.conflicts as f64),
        Some(done.missed as f64),
        None,
        None,
    ];
    let mut whole = round(&figures, of_run);
    let drawn = FIGURES.iter().filter(|(key, ..)| DRAWN.contains(key));
    whole.series = drawn
        .map(|(_, title, unit, of)| Line {
            name: (*title).to_owned(),
            unit: *unit,
            x: X::Seconds,
            points: curve
                .iter()
                .map(|point| (point.at, of(&point.figures)))
                .collect(),
        })
        .collect();
    let side = variant.name();
    let shown = format!(
        "{:.1} steps a row, readers {:.1} %, mean {:.0} us, p99 {:.0} us",
        figures.next_per_processed, figures.reader_cpu_percent, figures.mean_us, figures.p99_us
    );
    session.record_single(workload.name, side, whole, &shown);
    for phase in series.phases.iter().filter(|_| series.phases.len() > 1) {
        let hot = seconds_to_hits(&curve, phase);
        let of_phase = [
            None,
            None,
            hot.map(|(seconds, _)| seconds),
            hot.map(|(_, ratio)| ratio),
        ];
        let measured = round(&figures_of(phase.from, phase.to), of_phase);
        let name = format!("{}: {}", workload.name, phase.name);
        session.report.record_single(&name, side, measured);
    }
    figures
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::super::series::tests::series;
    use super::super::workloads::{Extent, catalog};
    use super::*;

    const EXTENT: Extent = Extent {
        history: Duration::ZERO,
        seconds: 10.0,
        phase: 1.0,
        divisor: 1,
    };

    #[test]
    fn fixed_fields_are_in_the_json_and_targets_are_ratios_to_the_store_alone() {
        let mut session = Session::new("t", Path::new("/"), None, 0, Default::default());
        session.report.measures = measures();
        session.report.targets = targets();
        let workload = catalog::workload("W3", EXTENT).unwrap();
        for variant in [Variant::Off, Variant::On] {
            let figures = record(&mut session, &workload, variant, &series(), (2.0, 10.0));
            assert!(figures.mean_us > 0.0);
        }
        let report = session.report;
        let judged: Vec<_> = report
            .targets
            .iter()
            .filter_map(|t| t.judge(&report))
            .collect();
        assert_eq!(judged, [(1.0, false), (1.0, false)]);
        let json: serde_json::Value = serde_json::to_value(&report).unwrap();
        let sides = json["workloads"].as_array().unwrap();
        assert_eq!(sides.len(), 2);
        for (side, variant) in sides.iter().zip(["off", "on"]) {
            assert_eq!(side["name"], "W3");
            assert_eq!(side["variant"], variant);
            for field in [
                "next_per_processed",
                "reader_cpu_percent",
                "mean_us",
                "p99_us",
            ] {
                assert!(side[field].as_f64().unwrap() > 0.0, "{field}");
            }
            assert_eq!(side["series"][0]["points"].as_array().unwrap().len(), 10);
        }
        for target in targets() {
            assert!(
                report
                    .measures
                    .iter()
                    .any(|measure| measure.key == target.key)
            );
        }
    }

    #[test]
    fn the_window_is_around_the_crossing_or_at_the_end() {
        let mut workload = catalog::workload("W1", EXTENT).unwrap();
        workload.window = Window::Crossing(5.0);
        assert_eq!(window(&workload, &series()), ((4.0, 6.0), None));
        workload.window = Window::Crossing(62.0);
        let (part, remark) = window(&workload, &series());
        assert_eq!(part, (8.0, 10.0));
        assert!(remark.unwrap().contains("did not come to 62"));
        workload.window = Window::Between(0.4, 1.0);
        assert_eq!(window(&workload, &series()), ((4.0, 10.0), None));
    }
}
