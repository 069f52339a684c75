//! Converts operations to text and back.

use std::fmt;
use std::str::FromStr;

use titan::{Error, Result};

use super::{
    Durability, Field, Op, Operation, Ops, Step, Value, Words, Write, legal, reduce, wrong,
};

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

impl Op {
    pub(super) fn show_other(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (writes, durability) = match self {
            Op::Write { writes, durability } => (writes, durability),
            Op::Move { id, step } => {
                return match step {
                    Step::First => write!(f, "first {id}"),
                    Step::Last => write!(f, "last {id}"),
                    Step::Seek(key) => write!(f, "seek {id} {}", Key(key)),
                    Step::SeekForPrev(key) => write!(f, "seek-for-prev {id} {}", Key(key)),
                    Step::Next(n) => write!(f, "next {id} {n}"),
                    Step::Prev(n) => write!(f, "prev {id} {n}"),
                };
            }
            _ => return Ok(()),
        };
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

    pub(super) fn take_other(word: &str, words: &mut Words<'_>) -> Result<Op> {
        if !["first", "last", "seek", "seek-for-prev", "next", "prev"].contains(&word) {
            let writes = vec![Write::take(word, words)?];
            let durability = Durability::Logged;
            return Ok(Op::Write { writes, durability });
        }
        let id = words.number("an iterator's number")?;
        let step = match word {
            "first" => Step::First,
            "last" => Step::Last,
            "seek" => Step::Seek(Field::take(words, "key")?),
            "seek-for-prev" => Step::SeekForPrev(Field::take(words, "key")?),
            "next" => Step::Next(words.number("how far")?),
            _ => Step::Prev(words.number("how far")?),
        };
        Ok(Op::Move { id, step })
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

fn write(text: &str) -> Result<Write> {
    let mut words = Words::of(text);
    Write::take(words.next("a write")?, &mut words)
}

fn parse_op(line: &str) -> Result<Op> {
    let (line, durability) = match line.split_once(' ') {
        Some(("sync", rest)) => (rest.trim_start(), Durability::Synced),
        Some(("unlogged", rest)) => (rest.trim_start(), Durability::Unlogged),
        _ => (line, Durability::Logged),
    };
    if let Some(batch) = line.strip_prefix("batch ") {
        let inner = batch.trim().strip_prefix('[');
        let inner = inner.and_then(|rest| rest.strip_suffix(']'));
        let inner = inner.ok_or_else(|| wrong("a batch is [write; write]"))?;
        let writes = inner.split(';').filter(|text| !text.trim().is_empty());
        return Ok(Op::Write {
            writes: writes.map(write).collect::<Result<_>>()?,
            durability,
        });
    }
    let mut words = Words::of(line);
    let word = words.next("an operation")?;
    let only_writes = || wrong("only writes are synced or unlogged");
    if word == "compact" && words.clone().count() == 1 {
        return match durability {
            Durability::Logged => parse_op(&format!("{line} - -")),
            _ => Err(only_writes()),
        };
    }
    match Op::take(word, &mut words)? {
        Op::MultiGet { keys, .. } if keys.is_empty() => Err(wrong("a key is missing")),
        Op::Write { writes, .. } => Ok(Op::Write { writes, durability }),
        _ if durability != Durability::Logged => Err(only_writes()),
        op => Ok(op),
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
            "sync compact default",
            "unlogged compact default",
            "sync compact default a b",
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
