//! Converts operations on versions to text and back, and reduces them.

use std::collections::BTreeSet;
use std::fmt;

use titan::Result;

use super::{At, Change, Kind, Op, Range, Verb, Whole};
use crate::ops::{Field, Key, Operation, Value, Words, parse_key, wrong};
use crate::sim::Loss;

const KINDS: [(&str, Kind); 3] = [
    ("pessimistic", Kind::Pessimistic),
    ("client", Kind::Client),
    ("async", Kind::Async),
];
const VERBS: [(&str, Verb); 11] = [
    ("commit-ts", Verb::CommitTs),
    ("commit-primary", Verb::CommitPrimary),
    ("commit", Verb::Commit),
    ("rollback", Verb::Rollback),
    ("abandon", Verb::Abandon),
    ("check-secondaries", Verb::CheckSecondaries),
    ("heartbeat", Verb::Heartbeat),
    ("resolve", Verb::Resolve),
    ("timestamp", Verb::Timestamp),
    ("release", Verb::Release),
    ("drop-load", Verb::DropLoad),
];
const WHOLE: [(&str, Whole); 8] = [
    ("gc", Whole::Gc),
    ("drop-old", Whole::DropOld),
    ("flush", Whole::Flush),
    ("collect", Whole::Collect),
    ("check", Whole::Check),
    ("reopen", Whole::Reopen),
    ("maintain", Whole::Maintain),
    ("audit", Whole::Audit),
];

fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value)
}

fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    let found = table.iter().find(|(_, known)| known == value);
    found.map_or("", |(name, _)| name)
}

impl Field for Kind {
    fn show(&self, _: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name_of(&KINDS, self) {
            "" => Ok(()),
            kind => write!(f, " {kind}"),
        }
    }

    fn take(words: &mut Words<'_>, name: &str) -> Result<Self> {
        if words.peek().is_none() {
            return Ok(Kind::Optimistic);
        }
        let word = words.next(name)?;
        named(&KINDS, word).ok_or_else(|| wrong(format!("no kind: {word}")))
    }
}

impl Field for At {
    fn show(&self, _: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Present => Ok(()),
            At::Of(id) => write!(f, " @{id}"),
            At::Before(id) => write!(f, " @{id}-"),
            At::In(id) => write!(f, " in {id}"),
        }
    }

    fn take(words: &mut Words<'_>, name: &str) -> Result<Self> {
        if words.is_next("in") {
            return words.number("in").map(At::In);
        }
        let Some(word) = words.peek().and_then(|word| word.strip_prefix('@')) else {
            return Ok(At::Present);
        };
        words.next(name)?;
        let id = |word: &str| {
            word.parse()
                .map_err(|_| wrong(format!("no timestamp: @{word}")))
        };
        match word.strip_suffix('-') {
            Some(word) => id(word).map(At::Before),
            None => id(word).map(At::Of),
        }
    }
}

impl Field for Range {
    fn show(&self, _: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A point in a key would end it.
        let bound = |key: &Option<Vec<u8>>| {
            let key = key.as_deref().map(|key| Key(key).to_string());
            key.unwrap_or_default().replace('.', "%2e")
        };
        write!(f, " {}..{}", bound(&self.from), bound(&self.to))
    }

    fn take(words: &mut Words<'_>, name: &str) -> Result<Self> {
        let word = words.next(name)?;
        let bounds = word.split_once("..");
        let (from, to) = bounds.ok_or_else(|| wrong(format!("a range is FROM..TO, not {word}")))?;
        let bound = |word: &str| (!word.is_empty()).then(|| parse_key(word)).transpose();
        Ok(Range {
            from: bound(from)?,
            to: bound(to)?,
        })
    }
}

impl Op {
    pub(super) fn show_other(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Change { id, key, change } => {
                let key = Key(key);
                match change {
                    Change::Put(value) => write!(f, "put {id} {key} {value}"),
                    Change::Delete => write!(f, "delete {id} {key}"),
                    Change::Lock => write!(f, "lock {id} {key}"),
                    Change::GetForUpdate => write!(f, "get-for-update {id} {key}"),
                }
            }
            Op::Crash { loss, back } => {
                match loss {
                    Loss::None => f.write_str("crash nothing")?,
                    Loss::All => f.write_str("crash all")?,
                    Loss::Random(seed) => write!(f, "crash random:{seed}")?,
                }
                match back {
                    0 => Ok(()),
                    back => write!(f, " back {back}"),
                }
            }
            Op::Load { id, range, pinned } => {
                f.write_str("load")?;
                id.map_or(Ok(()), |id| write!(f, " {id}"))?;
                range.show("range", f)?;
                pinned.show("pinned", f)
            }
            Op::On { verb, id } => write!(f, "{} {id}", name_of(&VERBS, verb)),
            Op::Whole(whole) => f.write_str(name_of(&WHOLE, whole)),
            _ => Ok(()),
        }
    }

    pub(super) fn take_other(name: &str, words: &mut Words<'_>) -> Result<Op> {
        Ok(match name {
            "put" | "delete" | "lock" | "get-for-update" => Op::Change {
                id: words.number("the transaction")?,
                key: Field::take(words, "a key")?,
                change: match name {
                    "put" => Change::Put(Field::take(words, "a value")?),
                    "delete" => Change::Delete,
                    "lock" => Change::Lock,
                    _ => Change::GetForUpdate,
                },
            },
            "crash" => {
                let word = words.next("a loss")?;
                let seed = word.strip_prefix("random:").and_then(|s| s.parse().ok());
                let loss = match (word, seed) {
                    ("nothing", _) => Loss::None,
                    ("all", _) => Loss::All,
                    (_, Some(seed)) => Loss::Random(seed),
                    _ => return Err(wrong(format!("no loss: {word}"))),
                };
                let back = match words.is_next("back") {
                    true => words.number("the number of operations")?,
                    false => 0,
                };
                Op::Crash { loss, back }
            }
            "load" => {
                let is_range = words.peek().is_some_and(|word| word.contains(".."));
                let id = (!is_range).then(|| words.number("the load"));
                Op::Load {
                    id: id.transpose()?,
                    range: Field::take(words, "a range")?,
                    pinned: words.is_next("pinned"),
                }
            }
            _ => match (named(&VERBS, name), named(&WHOLE, name)) {
                (Some(verb), _) => Op::On {
                    verb,
                    id: words.number("the number")?,
                },
                (_, Some(whole)) => Op::Whole(whole),
                _ => return Err(wrong(format!("no operation: {name}"))),
            },
        })
    }
}

impl Operation for Op {
    fn parse(line: &str) -> Result<Op> {
        let mut words = Words::of(line);
        Op::take(words.next("an operation")?, &mut words)
    }

    /// Removes operations on what was never begun, and those that give a number twice.
    fn legal(ops: &[Op]) -> Vec<Op> {
        let mut given = BTreeSet::new();
        let mut is_legal = |op: &Op| {
            let used = op.uses().iter().all(|id| given.contains(id));
            used && op.gives().is_none_or(|id| given.insert(id))
        };
        ops.iter().filter(|op| is_legal(op)).cloned().collect()
    }

    fn simpler(&self) -> Vec<Op> {
        match self {
            Op::Change {
                id,
                key,
                change: Change::Put(value),
            } => {
                let shorter = [0, 1, value.len / 2, value.len.saturating_sub(1)];
                let shorter = shorter.into_iter().filter(|len| *len < value.len);
                let put = |len| Op::Change {
                    id: *id,
                    key: key.clone(),
                    change: Change::Put(Value { len, ..*value }),
                };
                shorter.map(put).collect()
            }
            Op::Scan {
                range, at, first, ..
            } if *range != Range::default() || first.is_some() => {
                vec![Op::Scan {
                    range: Range::default(),
                    at: *at,
                    reverse: false,
                    first: None,
                }]
            }
            _ => Vec::new(),
        }
    }
}

impl Op {
    /// The number that it gives to something.
    fn gives(&self) -> Option<u32> {
        match self {
            Op::Begin { id, .. }
            | Op::Iter { id, .. }
            | Op::Snapshot { id, .. }
            | Op::Hold { id, .. }
            | Op::On {
                verb: Verb::Timestamp,
                id,
            } => Some(*id),
            Op::Load { id, .. } => *id,
            _ => None,
        }
    }

    /// The numbers that must have been given before.
    fn uses(&self) -> Vec<u32> {
        let of_at = |at: &At| match at {
            At::Present => None,
            At::Of(id) | At::Before(id) | At::In(id) => Some(*id),
        };
        match self {
            Op::Change { id, .. }
            | Op::Prewrite { id, .. }
            | Op::Next { id, .. }
            | Op::LoadStep { id, .. } => vec![*id],
            Op::On { verb, id } if *verb != Verb::Timestamp => vec![*id],
            Op::CheckStatus { id, at, .. } => of_at(at).into_iter().chain([*id]).collect(),
            Op::Get { at, .. }
            | Op::Scan { at, .. }
            | Op::Iter { at, .. }
            | Op::Snapshot { at, .. }
            | Op::Hold { at, .. }
            | Op::SafePoint { at } => of_at(at).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Ops, reduce};

    const ALL: &str = "\
begin 1
begin 2 pessimistic
begin 3 client
begin 4 async
put 1 k 7*20
delete 1 %
lock 2 %ff.a
get-for-update 2 k
prewrite 3
prewrite 4 k %
check-status 3 @4- expired
get k
get k in 2
scan %2e..%2e
scan ..
scan a.. @1 reverse first 5
iter 5 ..m in 1 reverse
next 5 3
snapshot 6
snapshot 7 @6-
hold 8 @6
timestamp 9
commit-ts 3
commit-primary 3
commit 3
rollback 4
abandon 2
check-secondaries 4
heartbeat 2
resolve 4
release 8
safe-point
safe-point @9
compact k bottommost
tick 50
clock -3600000
crash nothing
crash all
crash random:8 back 3
load a..m
load 10 m.. pinned
load-step 10 3
drop-load 10
evict ..
limit 3000
gc
drop-old
flush
collect
check
reopen
maintain
audit
";

    #[test]
    fn what_is_printed_is_read_back_and_mistakes_name_their_line() {
        let ops: Ops<Op> = ALL.parse().unwrap();
        assert_eq!(ops.to_string(), ALL);
        assert_eq!(Op::legal(&ops.0), ops.0);
        for wrong in [
            "begin",
            "begin 1 soon",
            "put 1 k",
            "scan a",
            "get k @",
            "get k @1+",
            "crash some",
            "load x a..b",
            "evict",
            "flush now",
            "begin 1 client async",
        ] {
            let text = format!("gc\n\n{wrong}\n");
            let error = text.parse::<Ops<Op>>().unwrap_err().to_string();
            assert!(error.contains("line 3"), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_nothing_is_left_of_goes_with_it_and_numbers_are_given_once() {
        let all: Ops<Op> = ALL.parse().unwrap();
        let without = Op::legal(&all.0[1..]);
        assert!(without.iter().all(|op| !op.uses().contains(&1)));
        let twice = Op::legal(&[&all.0[..], &all.0].concat());
        assert!(twice.iter().filter(|op| op.gives() == Some(6)).count() == 1);
        // A failure that needs a value of three bytes, a prewrite and a later crash.
        let fails = |ops: &[Op]| {
            let put =
                |op: &Op| matches!(op, Op::Change { change: Change::Put(v), .. } if v.len >= 3);
            let crash = ops.iter().rposition(|op| matches!(op, Op::Crash { .. }));
            let prewrite = ops.iter().position(|op| matches!(op, Op::Prewrite { .. }));
            ops.iter().any(put) && prewrite < crash && prewrite.is_some()
        };
        let small = Ops(reduce(all.0, fails)).to_string();
        let lines: Vec<&str> = small.lines().collect();
        assert_eq!(lines.len(), 5, "{small}");
        assert!(small.contains("7*3"), "{small}");
    }
}
