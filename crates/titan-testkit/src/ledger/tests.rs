//! Short lists of operations, and the states that are allowed after them.

use super::*;
use crate::model::DEFAULT;
use crate::ops::Ops;

fn op(text: &str) -> Op {
    Ops::parse(text).unwrap().0.remove(0)
}

const LIST: &str = "\
create-cf cf1
batch [put default a 1*10; put cf1 a 1*10]
sync put cf1 b 2*10
flush default
put default c 3*10
put cf1 d 4*10
flush default
";

/// The ledger of the list, and its states with their moments.
fn states(keys: Keys) -> (Ledger, Vec<(Model, u64)>) {
    let mut ledger = Ledger::starting_at(Model::new(), keys).unwrap();
    let mut states = vec![(ledger.present().clone(), ledger.now())];
    for op in Ops::parse(LIST).unwrap().0 {
        ledger.push(&op);
        states.push((ledger.present().clone(), ledger.now()));
    }
    (ledger, states)
}

fn promised(ledger: &Ledger, states: &[(Model, u64)], end: End) -> Vec<usize> {
    let moments = states.iter().map(|(_, moment)| *moment);
    moments.map(|moment| ledger.promised(end, moment)).collect()
}

#[test]
fn logged_writes_come_back_as_a_prefix_with_what_was_synced_or_flushed() {
    let (ledger, states) = states(Keys::Together);
    let durable = promised(&ledger, &states, End::Machine);
    assert_eq!(durable, [0, 1, 1, 3, 3, 3, 3, 4]);
    let returned = promised(&ledger, &states, End::Process);
    assert_eq!(returned, [0, 1, 2, 3, 3, 4, 5, 5]);
    for (state, moment) in &states {
        ledger.allows(state, End::Process, *moment).unwrap();
        ledger.allows(state, End::Machine, *moment).unwrap();
    }
    let (two, last) = (&states[2].0, states[7].1);
    ledger.allows(two, End::Machine, states[3].1).unwrap_err();
    ledger.allows(&states[5].0, End::Machine, last).unwrap();
    ledger.allows(&states[5].0, End::Process, last).unwrap_err();
    let mut mixed = two.clone();
    mixed.insert_family("cf1", []);
    ledger.allows(&mixed, End::Machine, 0).unwrap_err();
}

#[test]
fn unlogged_writes_come_back_as_a_prefix_by_family_with_what_was_flushed() {
    let (mut ledger, states) = states(Keys::ByFamily);
    for end in [End::Process, End::Machine] {
        let durable = promised(&ledger, &states, end);
        assert_eq!(durable, [0, 1, 1, 1, 2, 2, 2, 3]);
    }
    let mut mixed = states[2].0.clone();
    mixed.insert_family("cf1", []);
    ledger.allows(&mixed, End::Process, states[4].1).unwrap();
    mixed.insert_family(DEFAULT, []);
    ledger.allows(&mixed, End::Process, states[3].1).unwrap();
    ledger
        .allows(&mixed, End::Process, states[4].1)
        .unwrap_err();
    ledger.push(&Op::Close);
    let all = ledger.now();
    ledger.allows(&states[5].0, End::Process, all).unwrap_err();
    ledger.allows(&states[7].0, End::Machine, all).unwrap();
    let mut strange = states[7].0.clone();
    strange.create_family("strange");
    ledger.allows(&strange, End::Machine, 0).unwrap_err();
}

#[test]
fn an_operation_in_doubt_may_be_there_until_it_is_abandoned() {
    for keys in [Keys::Together, Keys::ByFamily] {
        let mut ledger = Ledger::starting_at(Model::new(), keys).unwrap();
        ledger.push(&op("put default a 1*10"));
        let without = ledger.present().clone();
        ledger.begin(0, &op("sync put default b 2*10"));
        ledger.unsure(0);
        let with = ledger.with_doubts();
        let allows =
            |ledger: &Ledger, state: &Model| ledger.allows(state, End::Process, ledger.now());
        allows(&ledger, &without).unwrap();
        allows(&ledger, &with).unwrap();
        ledger.is_now(&without).unwrap();
        ledger.is_now(&with).unwrap_err();

        let mut healed = ledger.clone();
        healed.abandon(0);
        allows(&healed, &with).unwrap_err();
        let mut refused = ledger.clone();
        refused.begin(0, &op("put default b 2*10"));
        refused.undone(0);
        allows(&refused, &with).unwrap();
        let mut followed = ledger.clone();
        followed.push(&op("put default c 3*10"));
        allows(&followed, followed.present()).unwrap();
        let mut both = followed.present().clone();
        both.apply(&op("put default b 2*10"));
        allows(&followed, &both).unwrap_err();

        // Opening shows whether it took effect; that does not make it durable.
        assert!(!ledger.clone().settle(&without));
        assert!(ledger.settle(&with));
        ledger.is_now(&with).unwrap();
        assert_eq!(ledger.promised(End::Machine, ledger.now()), 0);
    }
}

/// Of keys such as `0.k`.
fn owner(_: &str, key: Option<&[u8]>) -> Option<usize> {
    let digit = (*key?.first()? as char).to_digit(10);
    digit.map(|digit| digit as usize)
}

fn of_actors(lines: &[&str]) -> Ledger {
    let keys = Keys::ByActor {
        actors: 3,
        owner,
        unlogged: Some(2),
    };
    let mut ledger = Ledger::starting_at(Model::new(), keys).unwrap();
    for line in lines {
        let (actor, event) = line.split_once(' ').unwrap();
        let actor = actor.parse().unwrap();
        match event {
            "done" => ledger.done(actor),
            "unsure" => ledger.unsure(actor),
            begun => ledger.begin(actor, &op(begun)),
        }
    }
    ledger
}

/// Whether the keys, each with the seed of its value, may be found.
fn may_be(ledger: &Ledger, end: End, pairs: &[(&str, u64)]) -> Result<(), Mismatch> {
    let mut found = Model::new();
    for (key, seed) in pairs {
        found.write(&Write::Put {
            family: DEFAULT.to_owned(),
            key: key.as_bytes().to_vec(),
            value: crate::ops::Value {
                seed: *seed,
                len: 8,
            },
        });
    }
    ledger.allows(&found, end, ledger.now())
}

#[test]
fn what_was_acknowledged_survives_the_process_and_what_was_not_may() {
    let ledger = of_actors(&[
        "0 batch [put default 0a 1*8; put default 0b 1*8]",
        "0 done",
        "0 batch [delete default 0a; put default 0c 2*8]",
    ]);
    let may_be = |pairs: &[(&str, u64)]| may_be(&ledger, End::Process, pairs);
    may_be(&[("0a", 1), ("0b", 1)]).unwrap();
    may_be(&[("0b", 1), ("0c", 2)]).unwrap();
    // Lost, half of the last, something different, nobody's.
    let lost = may_be(&[]).unwrap_err();
    assert!(lost.what.contains("equals prefix 0"), "{lost}");
    let half = may_be(&[("0b", 1)]).unwrap_err();
    assert_eq!(half.place, Some((DEFAULT.into(), Some(b"0a".to_vec()))));
    may_be(&[("0a", 1), ("0b", 1), ("0d", 9)]).unwrap_err();
    may_be(&[("0a", 1), ("0b", 2)]).unwrap_err();
    may_be(&[("0a", 1), ("0b", 1), ("7a", 1)]).unwrap_err();
    may_be(&[("0a", 1), ("0b", 1), ("k", 1)]).unwrap_err();
}

#[test]
fn the_machine_spares_what_was_synced_and_a_prefix_of_the_rest() {
    let ledger = of_actors(&[
        "0 put default 0a 1*8",
        "0 done",
        "1 sync put default 1a 1*8",
        "1 done",
        "1 put default 1b 2*8",
        "1 done",
        "0 put default 0b 2*8",
        "0 done",
    ]);
    let may_be = |pairs: &[(&str, u64)]| may_be(&ledger, End::Machine, pairs);
    may_be(&[("0a", 1), ("1a", 1)]).unwrap();
    may_be(&[("0a", 1), ("1a", 1), ("1b", 2)]).unwrap();
    may_be(&[("0a", 1), ("0b", 2), ("1a", 1), ("1b", 2)]).unwrap();
    // The sync of actor 1 covers what actor 0 wrote before.
    may_be(&[("1a", 1)]).unwrap_err();
    may_be(&[("0a", 1)]).unwrap_err();
    // The second operation of actor 0 began after the second of actor 1 had ended.
    let late = may_be(&[("0a", 1), ("0b", 2), ("1a", 1)]).unwrap_err();
    assert!(late.what.starts_with("not a prefix"), "{late}");
}

#[test]
fn an_operation_in_doubt_is_not_there_without_what_was_acknowledged_before_it_began() {
    let ledger = of_actors(&[
        "0 put default 0a 1*8",
        "0 done",
        "1 put default 1a 1*8",
        "1 unsure",
    ]);
    let may_be = |pairs: &[(&str, u64)]| may_be(&ledger, End::Machine, pairs);
    may_be(&[]).unwrap();
    may_be(&[("0a", 1)]).unwrap();
    may_be(&[("0a", 1), ("1a", 1)]).unwrap();
    may_be(&[("1a", 1)]).unwrap_err();
}

#[test]
fn what_is_acknowledged_after_the_end_of_the_machine_is_not() {
    let mut ledger = of_actors(&["0 sync put default 0a 1*8"]);
    let ended = ledger.now();
    ledger.done(0);
    ledger.begin(0, &op("sync put default 0b 2*8"));
    ledger.allows(&Model::new(), End::Machine, ended).unwrap();
    let now = ledger.now();
    ledger.allows(&Model::new(), End::Machine, now).unwrap_err();
}

#[test]
fn unlogged_writes_of_an_actor_need_their_flush_only() {
    let ledger = of_actors(&[
        "2 unlogged put default 2a 1*8",
        "2 done",
        "2 flush default",
        "2 done",
        "2 unlogged put default 2b 2*8",
        "2 done",
        "0 sync put default 0a 1*8",
        "0 done",
    ]);
    for end in [End::Process, End::Machine] {
        may_be(&ledger, end, &[("0a", 1), ("2a", 1)]).unwrap();
        may_be(&ledger, end, &[("0a", 1), ("2a", 1), ("2b", 2)]).unwrap();
        may_be(&ledger, end, &[("0a", 1)]).unwrap_err();
        may_be(&ledger, end, &[("0a", 1), ("2b", 2)]).unwrap_err();
    }
    let mut flushed = ledger.clone();
    flushed.push(&Op::FlushAll);
    may_be(&flushed, End::Machine, &[("0a", 1), ("2a", 1)]).unwrap_err();
}

#[test]
fn described_values_are_compared_by_their_description() {
    let start = Model::new().described();
    let mut ledger = Ledger::starting_at(start.clone(), Keys::Together).unwrap();
    ledger.push(&op("put default a 1*1000000000000"));
    let mut found = start;
    found.put(DEFAULT, b"a", b"1*1000000000000".to_vec());
    ledger.is_now(&found).unwrap();
    ledger.allows(&found, End::Process, ledger.now()).unwrap();
}
