//! Reports beside themselves and beside changed ones.

use super::*;
use crate::report::figures::CPU;
use crate::report::synthetic;
use crate::results::Outcome;

fn find<'c>(comparison: &'c Comparison, step: &str, engine: &str, what: &str) -> &'c Compared {
    let mut steps = comparison.steps.iter();
    let step = steps
        .find(|s| s.step == step && s.engine == engine)
        .unwrap();
    step.measures
        .iter()
        .find(|measure| measure.what == what)
        .unwrap()
}

#[test]
fn a_report_is_the_same_as_itself() {
    let report = synthetic::report();
    let comparison = compare(&report, &report);
    assert!(comparison.conditions.is_empty());
    assert!(comparison.only_in_a.is_empty() && comparison.only_in_b.is_empty());
    assert!(comparison.rankings.iter().all(|ranking| ranking.same));
    assert!(comparison.judged.len() > 20);
    assert!((comparison.judged.iter()).all(|judged| judged.agree && !judged.contrary()));
    let fill = comparison
        .steps
        .iter()
        .find(|s| s.step == "fill" && s.engine == "redb");
    assert!(fill.is_some_and(|step| step.cut_short_a && step.cut_short_b));
    let all = comparison.steps.iter().flat_map(|step| &step.measures);
    assert!(all.clone().count() > 20);
    assert!(
        all.clone()
            .all(|c| c.exceeds_spread == Some(false) && c.ratio.contains(1.0))
    );
}

#[test]
fn what_differs_is_told() {
    let (a, mut b) = (synthetic::report(), synthetic::report());
    b.settings.memory_limit = None;
    b.about_engines[0].version = "2.0.0".to_owned();
    b.runs.retain(|run| run.engine != "redb");
    for run in &mut b.runs {
        if let Outcome::Measured(measured) = &mut run.outcome
            && (run.step.as_str(), run.engine.as_str()) == ("get", "titan")
        {
            measured.work.operations *= 2;
        }
    }
    let comparison = compare(&a, &b);
    let names: Vec<&str> = comparison
        .conditions
        .iter()
        .map(|d| d.what.as_str())
        .collect();
    assert_eq!(names, ["memory limit", "engine titan"]);
    let rate = find(&comparison, "get", "titan", RATE.name);
    assert_eq!(rate.exceeds_spread, Some(true));
    assert!((rate.ratio.median - 2.0).abs() < 0.01, "{rate:?}");
    let changed: Vec<_> = comparison
        .rankings
        .iter()
        .filter(|ranking| !ranking.same)
        .collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].b[0], "titan");
    assert!(changed[0].contrary);
    let contrary: Vec<_> = comparison.judged.iter().filter(|j| j.contrary()).collect();
    // Twice the operations in the same time halve what each costs.
    let measures: Vec<&str> = contrary.iter().map(|judged| judged.measure).collect();
    assert_eq!(measures, [RATE.name, CPU.name]);
    assert!(
        contrary
            .iter()
            .all(|judged| judged.against == "lmdb" && !judged.agree)
    );
    assert_eq!(comparison.only_in_a.len(), 4);
    let text = comparison.to_string();
    for part in [
        "memory limit",
        "Measured only in A",
        "differs",
        "lmdb > titan",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(
        serde_json::to_string(&comparison)
            .unwrap()
            .contains("\"exceeds_spread\":true")
    );
}

#[test]
fn places_changed_within_the_spread_are_no_contradiction() {
    let (a, mut b) = (synthetic::report(), synthetic::report());
    // Not in round 1 of B, so that medians change places and rounds overlap.
    for run in &mut b.runs {
        if let Outcome::Measured(measured) = &mut run.outcome
            && (run.step.as_str(), run.engine.as_str()) == ("mixed", "rocksdb")
            && run.round > 1
        {
            measured.work.operations = measured.work.operations * 21 / 20;
        }
    }
    let comparison = compare(&a, &b);
    let mixed = comparison
        .rankings
        .iter()
        .find(|r| r.step == "mixed")
        .unwrap();
    assert!(!mixed.same && !mixed.contrary, "{mixed:?}");
    assert!(comparison.to_string().contains("within the spread"));
}

#[test]
fn one_round_has_no_spread() {
    let (a, mut b) = (synthetic::report(), synthetic::report());
    b.runs.retain(|run| run.round == 1);
    b.ceilings.clear();
    let comparison = compare(&a, &b);
    assert!(comparison.device.is_empty());
    assert_eq!(
        find(&comparison, "fill", "titan", RATE.name).exceeds_spread,
        None
    );
}
