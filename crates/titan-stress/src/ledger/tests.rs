//! Comparisons on short histories.

use super::*;
use crate::op::Cell;

const UNLOGGED: usize = 2;

fn ledger(lines: &[&str]) -> Ledger {
    let scale = Scale {
        writers: 2,
        keys: 10,
        max_value: 100,
        synced: 0,
        buffers: (0, 0),
    };
    let mut ledger = Ledger::new(&scale);
    for line in lines {
        ledger.note(&Event::parse(line).unwrap()).unwrap();
    }
    ledger
}

/// An actor's findings: whether its own family exists, keys with their versions.
type Found<'a> = (usize, bool, &'a [(&'a str, u64)]);

fn found(actors: &[Found<'_>]) -> BTreeMap<usize, State> {
    let state = |own, cells: &[(&str, u64)]| State {
        own,
        cells: cells
            .iter()
            .map(|&(key, version)| {
                (
                    crate::op::parse_key(key).unwrap(),
                    Cell { version, amount: 0 },
                )
            })
            .collect(),
    };
    actors
        .iter()
        .map(|&(actor, own, cells)| (actor, state(own, cells)))
        .collect()
}

#[test]
fn what_was_acknowledged_survives_the_process_and_what_was_not_may() {
    let lines = [
        "begin 0 1 write logged +d1 +b2",
        "done 0 1",
        "begin 0 2 write logged -d1 +d3",
    ];
    let judge = |cells: &[(&str, u64)]| ledger(&lines).judge(&found(&[(0, false, cells)]));
    assert_eq!(judge(&[("d1", 1), ("b2", 1)]), Ok(()));
    assert_eq!(judge(&[("d3", 2), ("b2", 1)]), Ok(()));
    // Lost, half of the last, something different.
    let lost = judge(&[]).unwrap_err();
    assert!(lost.what.contains("but it is that of 0"), "{}", lost.what);
    let half = judge(&[("b2", 1)]).unwrap_err();
    assert_eq!(
        half.key.map(|(_, key)| key.to_string()).as_deref(),
        Some("d1")
    );
    assert!(judge(&[("d1", 1), ("b2", 1), ("i7", 9)]).is_err());
    assert!(judge(&[("d1", 1), ("b2", 2)]).is_err());
}

#[test]
fn the_machine_spares_what_was_synced_and_a_prefix_of_the_rest() {
    let lines = [
        "begin 0 1 write logged +d1",
        "done 0 1",
        "begin 1 1 write synced +d1",
        "done 1 1",
        "begin 1 2 write logged +d2",
        "done 1 2",
        "begin 0 2 write logged +d2",
        "done 0 2",
    ];
    let judge = |first: &[(&str, u64)], second: &[(&str, u64)]| {
        let mut ledger = ledger(&lines);
        ledger.ends(End::Machine);
        ledger.ends(End::Process);
        ledger.judge(&found(&[(0, false, first), (1, false, second)]))
    };
    let (one, two) = (&[("d1", 1)][..], &[("d1", 1), ("d2", 2)][..]);
    assert_eq!(judge(one, one), Ok(()));
    assert_eq!(judge(one, two), Ok(()));
    assert_eq!(judge(two, two), Ok(()));
    // The sync of actor 1 covers what actor 0 wrote before.
    assert!(judge(&[], one).is_err());
    assert!(judge(one, &[]).is_err());
    // The second operation of actor 0 began after the second of actor 1 had ended.
    assert!(
        judge(two, one)
            .unwrap_err()
            .what
            .starts_with("not a prefix")
    );
}

#[test]
fn what_is_acknowledged_after_the_end_of_the_machine_is_not() {
    let mut ledger = ledger(&["begin 0 1 write synced +d1"]);
    ledger.ends(End::Machine);
    for line in ["done 0 1", "begin 0 2 write synced +d2"] {
        ledger.note(&Event::parse(line).unwrap()).unwrap();
    }
    assert_eq!(ledger.judge(&found(&[])), Ok(()));
}

#[test]
fn unlogged_writes_need_their_flush_only() {
    let lines = [
        "begin 2 1 create",
        "done 2 1",
        "begin 2 2 write unlogged +o1",
        "done 2 2",
        "begin 2 3 flush",
        "done 2 3",
        "begin 2 4 write unlogged +o2",
        "done 2 4",
        "begin 0 1 write synced +d1",
        "done 0 1",
    ];
    let judge = |own, cells: &[(&str, u64)]| {
        let all = [(UNLOGGED, own, cells), (0, false, &[("d1", 1)][..])];
        ledger(&lines).judge(&found(&all))
    };
    assert_eq!(judge(true, &[("o1", 2)]), Ok(()));
    assert_eq!(judge(true, &[("o1", 2), ("o2", 4)]), Ok(()));
    assert!(judge(true, &[]).is_err());
    assert!(judge(true, &[("o2", 4)]).is_err());
    assert!(judge(false, &[]).is_err());
}

#[test]
fn a_failed_operation_may_be_there_until_the_next_one_begins() {
    let failed = ["begin 0 1 write logged +d1", "unsure 0 1 no space"];
    assert_eq!(ledger(&failed).judge(&found(&[])), Ok(()));
    assert_eq!(
        ledger(&failed).judge(&found(&[(0, false, &[("d1", 1)])])),
        Ok(())
    );
    let healed = [&failed[..], &["begin 0 2 write logged +d2", "done 0 2"]].concat();
    assert_eq!(
        ledger(&healed).judge(&found(&[(0, false, &[("d2", 2)])])),
        Ok(())
    );
    let both = found(&[(0, false, &[("d1", 1), ("d2", 2)])]);
    assert!(ledger(&healed).judge(&both).is_err());
    let refused = ["begin 0 1 write logged +d1", "undone 0 1"];
    assert!(
        ledger(&refused)
            .judge(&found(&[(0, false, &[("d1", 1)])]))
            .is_err()
    );
}
