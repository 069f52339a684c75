//! Compares reports with themselves and with changed ones.

use super::judgements::Agreement;
use super::rankings::Order;
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
    let in_order = |ranking: &Ranking| ranking.order == Order::Same;
    assert!(comparison.rankings.iter().all(in_order));
    // With a prescribed rate none is faster.
    assert!(
        comparison
            .rankings
            .iter()
            .all(|ranking| ranking.step != "mixed")
    );
    assert!(comparison.judged.len() > 20);
    let alike = |judged: &JudgedTwice| judged.agreement() == Agreement::Same && !judged.apart;
    assert!(comparison.judged.iter().all(alike));
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
        .filter(|ranking| ranking.order != Order::Same)
        .collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].b[0], "titan");
    assert_eq!(changed[0].order, Order::Contrary);
    let contrary = comparison.judged.iter();
    let contrary: Vec<_> = contrary
        .filter(|judged| judged.agreement() == Agreement::Contrary)
        .collect();
    // Twice the operations in the same time halve the cost of each.
    let measures: Vec<&str> = contrary.iter().map(|judged| judged.measure).collect();
    assert_eq!(measures, [RATE.name, CPU.name]);
    assert!(
        contrary
            .iter()
            .all(|judged| judged.against == "lmdb" && judged.apart)
    );
    assert_eq!(comparison.only_in_a.len(), 4);
    let text = comparison.to_string();
    for part in [
        "memory limit",
        "Measured only in A",
        "| differs |",
        "Where they contradict each other",
        "Others that lie apart",
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
    // One of redb's two rounds is below all of Titan's, as in A, and one above; rocksdb wins one of
    // three.
    for run in &mut b.runs {
        if let Outcome::Measured(measured) = &mut run.outcome
            && run.step == "get"
            && ["redb", "rocksdb"].contains(&run.engine.as_str())
            && run.round == 3
        {
            measured.work.operations = measured.work.operations * 14 / 10;
        }
        if let Outcome::Measured(measured) = &mut run.outcome
            && (run.step.as_str(), run.engine.as_str()) == ("fill", "redb")
        {
            measured.work.cut_short = false;
        }
    }
    let comparison = compare(&a, &b);
    let get = comparison
        .rankings
        .iter()
        .find(|r| r.step == "get")
        .unwrap();
    assert_eq!(get.order, Order::Changed, "{get:?}");
    let text = comparison.to_string();
    assert!(text.contains("not told apart") && text.contains("cut short in A"));
    let rate = (comparison.judged.iter())
        .find(|j| (j.step.as_str(), j.against.as_str(), j.measure) == ("get", "rocksdb", RATE.name))
        .unwrap();
    assert_eq!((rate.agreement(), rate.apart), (Agreement::OneSided, false));
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
    assert!(comparison.judged.iter().all(|judged| !judged.apart));
    let contrary = |ranking: &Ranking| ranking.order == Order::Contrary;
    assert!(!comparison.rankings.iter().any(contrary));
    assert!(comparison.to_string().contains("may be chance"));
}
