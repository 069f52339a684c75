//! Parses what such programs print at the end of a benchmark.

use anyhow::{Context, Result};

use crate::measured::{Latency, WorkDone};
use titan_workload::step::{Operation, Step};

/// From the histogram, in which a multi-get counts once.
fn counted(lines: &[&str]) -> Option<f64> {
    let count = lines.iter().find_map(|line| line.strip_prefix("Count: "))?;
    count.split_whitespace().next()?.parse().ok()
}

/// Keys of one operation.
fn keys_of(step: &Step) -> f64 {
    match step.main_operation() {
        Operation::MultiGet(keys) => f64::from(keys),
        _ => 1.0,
    }
}

/// Parses the line of a benchmark, and the percentiles below it.
pub(super) fn parse(text: &str, step: &Step) -> Result<WorkDone> {
    // Progress ends with carriage returns, or with nothing at all.
    let lines: Vec<&str> = text.split(['\n', '\r']).collect();
    let is_headline = |line: &&str| {
        let behind = line.split_once(&step.name);
        behind.is_some_and(|(_, rest)| rest.trim_start().starts_with(':'))
    };
    let at = lines.iter().rposition(is_headline);
    let at = at.context("there is no line of results")?;
    let (_, headline) = lines[at]
        .rsplit_once(" : ")
        .context("the line of results has no colon")?;
    let words: Vec<&str> = headline.split_whitespace().collect();
    let before = |unit: &str| -> Option<f64> {
        let at = words
            .iter()
            .position(|word| word.trim_end_matches(';') == unit)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    let rate = before("ops/sec").context("there is no rate")?;
    let micros = before("micros/op").context("there is no time of an operation")?;
    // Older versions report neither the number of operations nor the time.
    let operations = before("operations")
        .or(step.amount.operations.map(|all| all as f64))
        .or_else(|| Some(counted(&lines[at..])? * keys_of(step)));
    let operations = operations.context("there is no count of operations")?;
    let seconds = before("seconds").unwrap_or(operations / rate.max(1e-9));
    let operations = operations as u64;
    // `(found of tried found)`, for one of the threads.
    let share = headline.split_once('(').and_then(|(_, rest)| {
        let mut words = rest.split_whitespace();
        let found: f64 = words.next()?.parse().ok()?;
        let tried: f64 = words.nth(1)?.parse().ok()?;
        (tried > 0.0).then(|| found / tried)
    });
    let below = lines[at..]
        .iter()
        .find(|line| line.starts_with("Percentiles:"));
    let percentile = |name: &str| -> Result<f64> {
        let figure = below.and_then(|line| line.split_once(name));
        let word = figure.and_then(|(_, rest)| rest.split_whitespace().next());
        let value = word.and_then(|word| word.parse().ok());
        value.with_context(|| format!("there is no {}", name.trim_end_matches(": ")))
    };
    let (p50, p99) = (percentile("P50: ")?, percentile("P99: ")?);
    let (p999, p9999) = (percentile("P99.9: ")?, percentile("P99.99: ")?);
    let max = lines[at..]
        .iter()
        .find_map(|line| line.split_once(" Max: "));
    let max = max
        .and_then(|(_, max)| max.trim().parse().ok())
        .unwrap_or(p9999);
    let operation = step
        .mix
        .first()
        .map_or("", |(operation, _)| operation.name());
    Ok(WorkDone {
        operations,
        seconds,
        looked_up: share.map_or(0, |_| operations),
        found: share.map_or(0, |share| (share * operations as f64) as u64),
        latencies: vec![Latency {
            operation: operation.to_owned(),
            count: operations,
            mean: micros,
            p50,
            // It reports P75 and P99.
            p90: None,
            p99,
            p999,
            p9999,
            max,
            curve: vec![
                (50.0, p50),
                (99.0, p99),
                (99.9, p999),
                (99.99, p9999),
                (100.0, max),
            ],
            ..Latency::default()
        }],
        ..WorkDone::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::step;
    use super::*;

    const OUTPUT: &str = "... finished 1000 ops\rDB path: [/tmp/db]\n\
        readrandom   :      12.202 micros/op 162431 ops/sec 1.010 seconds 163998 operations;   \
        99.2 MB/s (50553 of 79999 found)\n\nMicroseconds per read:\n\
        Count: 163998 Average: 12.2416  StdDev: 163.67\nMin: 1  Median: 3.9509  Max: 8906\n\
        Percentiles: P50: 3.95 P75: 6.98 P99: 14.94 P99.9: 3318.20 P99.99: 6197.73\n";

    #[test]
    fn what_db_bench_prints_is_read() {
        let work = parse(OUTPUT, &step("readrandom")).unwrap();
        assert_eq!((work.operations, work.found), (163_998, 103_633));
        assert_eq!(work.seconds, 1.01);
        let latency = &work.latencies[0];
        assert_eq!(
            (latency.p50, latency.p99, latency.max),
            (3.95, 14.94, 8906.0)
        );
        assert_eq!((latency.p999, latency.p9999), (3318.2, 6197.73));
        assert!(parse(OUTPUT, &step("readseq")).is_err());
        let older = OUTPUT.replace("1.010 seconds 163998 operations; ", "");
        let work = parse(&older, &step("readrandom")).unwrap();
        assert_eq!(work.operations, 163_998);
        assert!((work.seconds - 1.01).abs() < 0.001, "{}", work.seconds);
        assert!(parse("readseq : nothing", &step("readseq")).is_err());
    }
}
