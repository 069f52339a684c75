//! Converts operations to text and back.

use std::fmt;
use std::str::{FromStr, SplitWhitespace};

use titan::{Error, Result};

use super::{Bounds, Durability, Op, Operation, Ops, Step, Value, Write, legal, reduce};

/// A key as text.
pub struct Key<'a>(pub &'a [u8]);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("%");
        }
        for &byte in self.0 {
            // Excludes characters that have a meaning in the text.
            if byte.is_ascii_alphanumeric() || b"_./:".contains(&byte) {
                write!(f, "{}", byte as char)?;
            } else {
                write!(f, "%{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// A bound as text.
struct Limit<'a>(&'a Option<Vec<u8>>);

impl fmt::Display for Limit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, "{}", Key(key)),
            None => f.write_str("-"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}*{}", self.seed, self.len)
    }
}

impl FromStr for Value {
    type Err = Error;

    fn from_str(text: &str) -> Result<Value> {
        let parts = text.split_once('*').and_then(|(seed, len)| {
            Some(Value {
                seed: seed.parse().ok()?,
                len: len.parse().ok()?,
            })
        });
        parts.ok_or_else(|| wrong(format!("a value is seed*length, not {text}")))
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::Put { family, key, value } => {
                write!(f, "put {family} {} {value}", Key(key))
            }
            Write::Merge { family, key, value } => {
                write!(f, "merge {family} {} {value}", Key(key))
            }
            Write::Delete { family, key } => write!(f, "delete {family} {}", Key(key)),
            Write::SingleDelete { family, key } => {
                write!(f, "single-delete {family} {}", Key(key))
            }
            Write::DeleteRange { family, from, to } => {
                write!(f, "delete-range {family} {} {}", Key(from), Key(to))
            }
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = |at: &Option<u32>| at.map(|id| format!(" @{id}")).unwrap_or_default();
        match self {
            Op::Write { writes, durability } => {
                f.write_str(match durability {
                    Durability::Unlogged => "unlogged ",
                    Durability::Logged => "",
                    Durability::Synced => "sync ",
                })?;
                if let [write] = &writes[..] {
                    return write!(f, "{write}");
                }
                let writes: Vec<String> = writes.iter().map(Write::to_string).collect();
                write!(f, "batch [{}]", writes.join("; "))
            }
            Op::Get { family, key, at } => write!(f, "get {family} {}{}", Key(key), snapshot(at)),
            Op::Scan {
                family,
                from,
                to,
                reverse,
                at,
            } => {
                let direction = if *reverse { " reverse" } else { "" };
                let at = snapshot(at);
                write!(
                    f,
                    "scan {family} {} {}{direction}{at}",
                    Limit(from),
                    Limit(to)
                )
            }
            Op::MultiGet { family, keys, at } => {
                write!(f, "multi-get {family}")?;
                keys.iter().try_for_each(|key| write!(f, " {}", Key(key)))?;
                f.write_str(&snapshot(at))
            }
            Op::Iter {
                id,
                family,
                bounds: Bounds { from, to, prefix },
                at,
            } => {
                write!(f, "iter {id} {family} {} {}", Limit(from), Limit(to))?;
                if let Some(prefix) = prefix {
                    write!(f, " prefix {}", Key(prefix))?;
                }
                f.write_str(&snapshot(at))
            }
            Op::Move { id, step } => match step {
                Step::First => write!(f, "first {id}"),
                Step::Last => write!(f, "last {id}"),
                Step::Seek(key) => write!(f, "seek {id} {}", Key(key)),
                Step::SeekForPrev(key) => write!(f, "seek-for-prev {id} {}", Key(key)),
                Step::Next(n) => write!(f, "next {id} {n}"),
                Step::Prev(n) => write!(f, "prev {id} {n}"),
            },
            Op::DropIter { id } => write!(f, "drop-iter {id}"),
            Op::Snapshot { id } => write!(f, "snapshot {id}"),
            Op::DropSnapshot { id } => write!(f, "drop-snapshot {id}"),
            Op::Flush { family } => write!(f, "flush {family}"),
            Op::Compact {
                family,
                from,
                to,
                bottommost,
            } => {
                let bottommost = if *bottommost { " bottommost" } else { "" };
                write!(
                    f,
                    "compact {family} {} {}{bottommost}",
                    Limit(from),
                    Limit(to)
                )
            }
            Op::Collect { family } => write!(f, "collect {family}"),
            Op::Checkpoint => f.write_str("checkpoint"),
            Op::FlushAll => f.write_str("flush-all"),
            Op::SyncWal => f.write_str("sync-wal"),
            Op::Reopen => f.write_str("reopen"),
            Op::Close => f.write_str("close"),
            Op::CreateCf { family } => write!(f, "create-cf {family}"),
            Op::DropCf { family } => write!(f, "drop-cf {family}"),
        }
    }
}

impl Operation for Op {
    fn parse(line: &str) -> Result<Self> {
        parse_op(line)
    }

    fn legal(ops: &[Self]) -> Vec<Self> {
        legal::legal(ops)
    }

    fn simpler(&self) -> Vec<Self> {
        reduce::simpler(self)
    }
}

/// One operation per line.
impl<O: Operation> fmt::Display for Ops<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}

impl Ops {
    /// Parses the output of `Display`. Ignores empty lines and those that start with `#`.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the line.
    pub fn parse(text: &str) -> Result<Ops> {
        text.parse()
    }
}

/// See [`Ops::parse`].
impl<O: Operation> FromStr for Ops<O> {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let parse = |(n, line): (usize, &str)| {
            let at_line = |e: Error| e.context(format!("line {}: {line}", n + 1));
            O::parse(line).map_err(at_line)
        };
        lines.map(parse).collect::<Result<_>>().map(Ops)
    }
}

pub(crate) fn wrong(what: impl fmt::Display) -> Error {
    Error::invalid_argument(what.to_string())
}

fn parse_op(line: &str) -> Result<Op> {
    let (line, durability) = match line.split_once(' ') {
        Some(("sync", rest)) => (rest.trim_start(), Durability::Synced),
        Some(("unlogged", rest)) => (rest.trim_start(), Durability::Unlogged),
        _ => (line, Durability::Logged),
    };
    if let Some(batch) = line.strip_prefix("batch ") {
        let inner = batch
            .trim()
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let inner = inner.ok_or_else(|| wrong("a batch is [write; write]"))?;
        let writes = inner.split(';').filter(|write| !write.trim().is_empty());
        let writes = writes.map(|write| {
            let mut words = Words::of(write);
            let verb = words.next("a write")?;
            let parsed = words
                .write(verb)?
                .ok_or_else(|| wrong(format!("no write: {verb}")))?;
            words.end(parsed)
        });
        return Ok(Op::Write {
            writes: writes.collect::<Result<_>>()?,
            durability,
        });
    }
    let mut words = Words::of(line);
    let verb = words.next("an operation")?;
    if let Some(write) = words.write(verb)? {
        return words.end(Op::Write {
            writes: vec![write],
            durability,
        });
    }
    if durability != Durability::Logged {
        return Err(wrong("only writes are synced or unlogged"));
    }
    let op = match verb {
        "get" => Op::Get {
            family: words.family()?,
            key: words.key()?,
            at: words.snapshot()?,
        },
        "scan" => {
            let (family, from, to) = (words.family()?, words.limit()?, words.limit()?);
            Op::Scan {
                family,
                from,
                to,
                reverse: words.is_next("reverse"),
                at: words.snapshot()?,
            }
        }
        "multi-get" => {
            let (family, mut keys) = (words.family()?, vec![words.key()?]);
            while !words.is_last_or_snapshot() {
                keys.push(words.key()?);
            }
            Op::MultiGet {
                family,
                keys,
                at: words.snapshot()?,
            }
        }
        "iter" => {
            let (id, family) = (words.number("an iterator's number")?, words.family()?);
            let (from, to) = (words.limit()?, words.limit()?);
            let prefix = words.is_next("prefix").then(|| words.key()).transpose()?;
            Op::Iter {
                id,
                family,
                bounds: Bounds { from, to, prefix },
                at: words.snapshot()?,
            }
        }
        "first" | "last" | "seek" | "seek-for-prev" | "next" | "prev" => Op::Move {
            id: words.number("an iterator's number")?,
            step: match verb {
                "first" => Step::First,
                "last" => Step::Last,
                "seek" => Step::Seek(words.key()?),
                "seek-for-prev" => Step::SeekForPrev(words.key()?),
                "next" => Step::Next(words.number("how far")?),
                _ => Step::Prev(words.number("how far")?),
            },
        },
        "drop-iter" => Op::DropIter {
            id: words.number("an iterator's number")?,
        },
        "snapshot" => Op::Snapshot {
            id: words.number("a snapshot's number")?,
        },
        "drop-snapshot" => Op::DropSnapshot {
            id: words.number("a snapshot's number")?,
        },
        "flush" => Op::Flush {
            family: words.family()?,
        },
        "compact" => {
            let family = words.family()?;
            let (from, to) = match words.peek() {
                None => (None, None),
                Some(_) => (words.limit()?, words.limit()?),
            };
            Op::Compact {
                family,
                from,
                to,
                bottommost: words.is_next("bottommost"),
            }
        }
        "collect" => Op::Collect {
            family: words.family()?,
        },
        "checkpoint" => Op::Checkpoint,
        "flush-all" => Op::FlushAll,
        "sync-wal" => Op::SyncWal,
        "reopen" => Op::Reopen,
        "close" => Op::Close,
        "create-cf" => Op::CreateCf {
            family: words.family()?,
        },
        "drop-cf" => Op::DropCf {
            family: words.family()?,
        },
        _ => return Err(wrong(format!("no operation: {verb}"))),
    };
    words.end(op)
}

/// The remaining words of an operation.
pub(crate) struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    pub(crate) fn of(line: &'a str) -> Self {
        Words(line.split_whitespace())
    }

    /// The next word, without taking it.
    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.0.clone().next()
    }

    pub(crate) fn next(&mut self, what: &str) -> Result<&'a str> {
        self.0
            .next()
            .ok_or_else(|| wrong(format!("{what} is missing")))
    }

    /// Skips the next word if it is this one.
    pub(crate) fn is_next(&mut self, word: &str) -> bool {
        let mut ahead = self.0.clone();
        let found = ahead.next() == Some(word);
        if found {
            self.0 = ahead;
        }
        found
    }

    fn is_last_or_snapshot(&self) -> bool {
        self.peek().is_none_or(|word| word.starts_with('@'))
    }

    pub(crate) fn end<T>(&mut self, parsed: T) -> Result<T> {
        match self.0.next() {
            None => Ok(parsed),
            Some(word) => Err(wrong(format!("{word} is too much"))),
        }
    }

    pub(crate) fn number<T: FromStr>(&mut self, what: &str) -> Result<T> {
        self.next(what)?
            .parse()
            .map_err(|_| wrong(format!("{what} is a number")))
    }

    fn family(&mut self) -> Result<String> {
        self.next("a column family").map(str::to_owned)
    }

    pub(crate) fn key(&mut self) -> Result<Vec<u8>> {
        parse_key(self.next("a key")?)
    }

    fn limit(&mut self) -> Result<Option<Vec<u8>>> {
        match self.next("a bound")? {
            "-" => Ok(None),
            word => parse_key(word).map(Some),
        }
    }

    fn snapshot(&mut self) -> Result<Option<u32>> {
        let Some(word) = self.0.next() else {
            return Ok(None);
        };
        let id = word.strip_prefix('@').and_then(|id| id.parse().ok());
        id.map(Some)
            .ok_or_else(|| wrong(format!("{word} is no snapshot")))
    }

    pub(crate) fn value(&mut self) -> Result<Value> {
        self.next("a value")?.parse()
    }

    fn write(&mut self, verb: &str) -> Result<Option<Write>> {
        Ok(Some(match verb {
            "put" => Write::Put {
                family: self.family()?,
                key: self.key()?,
                value: self.value()?,
            },
            "merge" => Write::Merge {
                family: self.family()?,
                key: self.key()?,
                value: self.value()?,
            },
            "delete" => Write::Delete {
                family: self.family()?,
                key: self.key()?,
            },
            "single-delete" => Write::SingleDelete {
                family: self.family()?,
                key: self.key()?,
            },
            "delete-range" => Write::DeleteRange {
                family: self.family()?,
                from: self.key()?,
                to: self.key()?,
            },
            _ => return Ok(None),
        }))
    }
}

/// The key of a text that [`Key`] printed.
///
/// # Errors
/// `InvalidArgument`.
pub fn parse_key(word: &str) -> Result<Vec<u8>> {
    if word == "%" {
        return Ok(Vec::new());
    }
    let mut key = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            key.push(byte);
            continue;
        }
        let digits = rest.get(..2).and_then(|d| std::str::from_utf8(d).ok());
        let byte = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
        key.push(byte.ok_or_else(|| wrong(format!("bad escape in {word}")))?);
        rest = &rest[2..];
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Generator, Weights};

    #[test]
    fn what_is_printed_is_read_back() {
        for seed in 0..20 {
            let mut generator = Generator::with_seed(seed);
            generator.weights = Weights::everything();
            let ops = generator.ops(500);
            assert!(Ops::parse(&ops.to_string()).unwrap() == ops, "seed {seed}");
        }
        let odd = vec![
            vec![],
            b"-".to_vec(),
            b"a;]%".to_vec(),
            vec![0, 255],
            b" ".to_vec(),
        ];
        let get = |key| Op::Get {
            family: "default".into(),
            key,
            at: None,
        };
        let ops = Ops(odd.into_iter().map(get).collect());
        assert_eq!(Ops::parse(&ops.to_string()).unwrap(), ops);
        let others = "unlogged put cf1 k 7*4\nflush-all\nsync-wal\nclose\n";
        assert_eq!(Ops::parse(others).unwrap().to_string(), others);
        assert_eq!(
            Ops::parse("# nothing\n\n  reopen\n").unwrap(),
            Ops(vec![Op::Reopen])
        );
    }

    #[test]
    fn mistakes_name_their_line() {
        let bad = [
            "put default k",
            "put default k 1*",
            "get",
            "get default k 1",
            "get default %z1",
            "reopen now",
            "sync reopen",
            "unlogged flush-all",
            "batch [reopen]",
            "batch put default k 1*1",
            "what",
            "scan default a",
            "snapshot x",
            "multi-get default",
            "iter 1 default",
            "iter 1 default - - prefix",
            "next 1",
            "seek k",
            "compact default a",
        ];
        for line in bad {
            let e = Ops::parse(&format!("reopen\n{line}\n")).unwrap_err();
            assert!(e.to_string().contains("line 2"), "{line}: {e}");
        }
    }
}
