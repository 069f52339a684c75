//! The words of a step: its command, its arguments, and its options.
//!
//! An option is `NAME` or `NAME:VALUE`. A write is `K=V` for a put, `-K` for a deletion, `!K` for a
//! lock. `as NAME` at the end names the timestamp in the result.

use std::time::Duration;

use titan_mvcc::Mutation;

pub(super) struct Words<'a> {
    pub(super) command: &'a str,
    /// The arguments that are neither options nor the name of the result.
    pub(super) arguments: Vec<&'a str>,
    options: Vec<(&'a str, &'a str)>,
    /// The name of the timestamp in the result.
    pub(super) result: Option<&'a str>,
}

/// The options of all commands.
const OPTIONS: [&str; 34] = [
    "primary",
    "ttl",
    "async",
    "for_update",
    "since",
    "read_at",
    "min_commit",
    "wait",
    "values",
    "at",
    "now",
    "reader",
    "or_roll_back",
    "backward",
    "pessimistic",
    "until",
    "from",
    "limit",
    "absent",
    "exists",
    "missing",
    "unchecked",
    "unlocked",
    "one_phase",
    "max_commit",
    "existing",
    "existence",
    "forced",
    "fallen_back",
    "resolved",
    "committed",
    "latest",
    "locked_at",
    "unverified",
];

impl<'a> Words<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        let (line, result) = match line.split_once(" as ") {
            Some((line, name)) => (line, Some(name)),
            None => (line, None),
        };
        let mut words = line.split_whitespace();
        let mut found = Words {
            command: words.next().unwrap(),
            arguments: Vec::new(),
            options: Vec::new(),
            result,
        };
        for word in words {
            let (name, value) = word.split_once(':').unwrap_or((word, ""));
            match OPTIONS.contains(&name) {
                true => found.options.push((name, value)),
                false => found.arguments.push(word),
            }
        }
        found
    }

    pub(super) fn option(&self, name: &str) -> Option<&'a str> {
        assert!(OPTIONS.contains(&name), "{name}");
        let mut options = self.options.iter().filter(|(known, _)| *known == name);
        options.next().map(|(_, value)| *value)
    }

    pub(super) fn seconds(&self, name: &str) -> Option<Duration> {
        self.option(name).map(seconds)
    }

    /// The first argument.
    pub(super) fn first(&self) -> &'a str {
        self.arguments.first().unwrap()
    }

    /// The arguments after the first `n`.
    pub(super) fn rest(&self, n: usize) -> &[&'a str] {
        self.arguments.get(n..).unwrap()
    }
}

pub(super) fn seconds(text: &str) -> Duration {
    Duration::from_secs(text.parse().unwrap())
}

pub(super) fn mutation(word: &str) -> Mutation<'_> {
    if let Some((key, value)) = word.split_once('=') {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        return Mutation::Put { key, value };
    }
    let key = word.get(1..).unwrap().as_bytes();
    match word.as_bytes()[0] {
        b'-' => Mutation::Delete { key },
        b'!' => Mutation::Lock { key },
        _ => panic!("no write: {word}"),
    }
}

/// The words after a colon, which commas separate.
pub(super) fn list(text: &str) -> Vec<bytes::Bytes> {
    let words = text.split(',').filter(|word| !word.is_empty());
    words
        .map(|word| bytes::Bytes::copy_from_slice(word.as_bytes()))
        .collect()
}
