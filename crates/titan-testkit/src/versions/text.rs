//! Converts operations on versions to text and back, and reduces them.

use std::collections::BTreeSet;
use std::fmt;

use titan::Result;

use super::{At, Change, Kind, Op, Range, Verb, Whole};
use crate::ops::{Key, Operation, Value, Words, parse_key, wrong};
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

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Present => Ok(()),
            At::Of(id) => write!(f, " @{id}"),
            At::Before(id) => write!(f, " @{id}-"),
            At::In(id) => write!(f, " in {id}"),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A point in a key would end it.
        let bound = |key: &Option<Vec<u8>>| {
            let key = key.as_deref().map(|key| Key(key).to_string());
            key.unwrap_or_default().replace('.', "%2e")
        };
        write!(f, "{}..{}", bound(&self.from), bound(&self.to))
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let if_set = |is_set: bool, word: &'static str| if is_set { word } else { "" };
        match self {
            Op::Begin { id, kind } => {
                let kind = name_of(&KINDS, kind);
                let space = if_set(!kind.is_empty(), " ");
                write!(f, "begin {id}{space}{kind}")
            }
            Op::Change { id, key, change } => {
                let key = Key(key);
                match change {
                    Change::Put(value) => write!(f, "put {id} {key} {value}"),
                    Change::Delete => write!(f, "delete {id} {key}"),
                    Change::Lock => write!(f, "lock {id} {key}"),
                    Change::GetForUpdate => write!(f, "get-for-update {id} {key}"),
                }
            }
            Op::Prewrite { id, keys } => {
                write!(f, "prewrite {id}")?;
                keys.iter().try_for_each(|key| write!(f, " {}", Key(key)))
            }
            Op::CheckStatus { id, at, expired } => {
                write!(f, "check-status {id}{at}{}", if_set(*expired, " expired"))
            }
            Op::On { verb, id } => write!(f, "{} {id}", name_of(&VERBS, verb)),
            Op::Get { key, at } => write!(f, "get {}{at}", Key(key)),
            Op::Scan {
                range,
                at,
                reverse,
                most,
            } => {
                write!(f, "scan {range}{at}{}", if_set(*reverse, " reverse"))?;
                most.map_or(Ok(()), |most| write!(f, " first {most}"))
            }
            Op::Iter {
                id,
                range,
                at,
                reverse,
            } => write!(f, "iter {id} {range}{at}{}", if_set(*reverse, " reverse")),
            Op::Next { id, n } => write!(f, "next {id} {n}"),
            Op::Snapshot { id, at } => write!(f, "snapshot {id}{at}"),
            Op::Hold { id, at } => write!(f, "hold {id}{at}"),
            Op::SafePoint { at } => write!(f, "safe-point{at}"),
            Op::Compact { key, bottommost } => {
                write!(
                    f,
                    "compact {}{}",
                    Key(key),
                    if_set(*bottommost, " bottommost")
                )
            }
            Op::Tick { ms } => write!(f, "tick {ms}"),
            Op::Clock { ms } => write!(f, "clock {ms}"),
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
                f.write_str("load ")?;
                id.map_or(Ok(()), |id| write!(f, "{id} "))?;
                write!(f, "{range}{}", if_set(*pinned, " pinned"))
            }
            Op::LoadStep { id, n } => write!(f, "load-step {id} {n}"),
            Op::Evict { range } => write!(f, "evict {range}"),
            Op::Limit { bytes } => write!(f, "limit {bytes}"),
            Op::Whole(whole) => f.write_str(name_of(&WHOLE, whole)),
        }
    }
}

fn number(words: &mut Words<'_>) -> Result<u32> {
    words.number("the number")
}

fn range(words: &mut Words<'_>) -> Result<Range> {
    let word = words.next("a range")?;
    let bounds = word.split_once("..");
    let (from, to) = bounds.ok_or_else(|| wrong(format!("a range is FROM..TO, not {word}")))?;
    let bound = |word: &str| (!word.is_empty()).then(|| parse_key(word)).transpose();
    Ok(Range {
        from: bound(from)?,
        to: bound(to)?,
    })
}

fn at(words: &mut Words<'_>) -> Result<At> {
    if words.is_next("in") {
        return number(words).map(At::In);
    }
    let Some(word) = words.peek().and_then(|word| word.strip_prefix('@')) else {
        return Ok(At::Present);
    };
    words.next("a timestamp")?;
    let (id, is_before) = match word.strip_suffix('-') {
        Some(id) => (id, true),
        None => (word, false),
    };
    let id = id
        .parse()
        .map_err(|_| wrong(format!("no timestamp: @{word}")))?;
    Ok(if is_before {
        At::Before(id)
    } else {
        At::Of(id)
    })
}

impl Operation for Op {
    fn parse(line: &str) -> Result<Op> {
        let mut words = Words::of(line);
        let name = words.next("an operation")?;
        let words = &mut words;
        let change = |words: &mut Words<'_>, change: fn(&mut Words<'_>) -> Result<Change>| {
            let (id, key) = (number(words)?, words.key()?);
            let change = change(words)?;
            Ok::<_, titan::Error>(Op::Change { id, key, change })
        };
        let op = match name {
            "begin" => {
                let id = number(words)?;
                let kind = match words.peek() {
                    None => Kind::Optimistic,
                    Some(word) => {
                        words.next("a kind")?;
                        named(&KINDS, word).ok_or_else(|| wrong(format!("no kind: {word}")))?
                    }
                };
                Op::Begin { id, kind }
            }
            "put" => change(words, |words| words.value().map(Change::Put))?,
            "delete" => change(words, |_| Ok(Change::Delete))?,
            "lock" => change(words, |_| Ok(Change::Lock))?,
            "get-for-update" => change(words, |_| Ok(Change::GetForUpdate))?,
            "prewrite" => {
                let (id, mut keys) = (number(words)?, Vec::new());
                while words.peek().is_some() {
                    keys.push(words.key()?);
                }
                Op::Prewrite { id, keys }
            }
            "check-status" => Op::CheckStatus {
                id: number(words)?,
                at: at(words)?,
                expired: words.is_next("expired"),
            },
            "get" => Op::Get {
                key: words.key()?,
                at: at(words)?,
            },
            "scan" => {
                let (range, at) = (range(words)?, at(words)?);
                let reverse = words.is_next("reverse");
                let most = words.is_next("first").then(|| number(words)).transpose()?;
                Op::Scan {
                    range,
                    at,
                    reverse,
                    most,
                }
            }
            "iter" => Op::Iter {
                id: number(words)?,
                range: range(words)?,
                at: at(words)?,
                reverse: words.is_next("reverse"),
            },
            "next" => Op::Next {
                id: number(words)?,
                n: number(words)?,
            },
            "snapshot" => Op::Snapshot {
                id: number(words)?,
                at: at(words)?,
            },
            "hold" => Op::Hold {
                id: number(words)?,
                at: at(words)?,
            },
            "safe-point" => Op::SafePoint { at: at(words)? },
            "compact" => Op::Compact {
                key: words.key()?,
                bottommost: words.is_next("bottommost"),
            },
            "tick" => Op::Tick {
                ms: words.number("the time in milliseconds")?,
            },
            "clock" => Op::Clock {
                ms: words.number("the jump in milliseconds")?,
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
                Op::Load {
                    id: (!is_range).then(|| number(words)).transpose()?,
                    range: range(words)?,
                    pinned: words.is_next("pinned"),
                }
            }
            "load-step" => Op::LoadStep {
                id: number(words)?,
                n: number(words)?,
            },
            "evict" => Op::Evict {
                range: range(words)?,
            },
            "limit" => Op::Limit {
                bytes: words.number("the limit in bytes")?,
            },
            _ => match (named(&VERBS, name), named(&WHOLE, name)) {
                (Some(verb), _) => Op::On {
                    verb,
                    id: number(words)?,
                },
                (_, Some(whole)) => Op::Whole(whole),
                _ => return Err(wrong(format!("no operation: {name}"))),
            },
        };
        words.end(op)
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
                range, at, most, ..
            } if *range != Range::default() || most.is_some() => {
                vec![Op::Scan {
                    range: Range::default(),
                    at: *at,
                    reverse: false,
                    most: None,
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
