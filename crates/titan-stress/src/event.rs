//! The events that the stressed process reports to the campaign, one per line.
//!
//! The pipe is the outside record. An operation begins only after the line that announces it is
//! in the kernel, so it survives the end of the process; the line that acknowledges it
//! follows when the database has acknowledged it. The order of lines is an order in which things
//! can have happened.

use std::fmt;

use titan_testkit::model::Model;
use titan_testkit::ops::{self, Op, Ops, Value};

/// The maximum number of keys in one [`Event::Found`], so that no line becomes long.
const FOUND_AT_ONCE: usize = 100;

/// An event that the stressed process reports to the campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are what their names say")]
pub enum Event {
    /// The database is open.
    Opened,
    /// The contents of a family; more may follow.
    Found {
        family: String,
        pairs: Vec<(Vec<u8>, Value)>,
    },
    /// All contents were reported.
    Dumped,
    /// An operation is about to begin.
    Begin { actor: usize, version: u64, op: Op },
    /// It is acknowledged.
    Done { actor: usize, version: u64 },
    /// It failed. It is not visible, but may be after the next opening.
    Unsure {
        actor: usize,
        version: u64,
        why: String,
    },
    /// It was refused, without effect.
    Undone { actor: usize, version: u64 },
    /// Writes have stopped because space ran out.
    Stopped(String),
    /// Writes are possible again, and space was freed.
    Resumed,
    /// The database violated a promise.
    Violation(String),
    /// An operation failed that should have succeeded.
    Failure(String),
}

impl Event {
    /// Parses a line.
    pub fn parse(line: &str) -> Option<Event> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match word {
            "opened" => Event::Opened,
            "dumped" => Event::Dumped,
            "resumed" => Event::Resumed,
            "stopped" => Event::Stopped(rest.to_owned()),
            "violation" => Event::Violation(rest.to_owned()),
            "failure" => Event::Failure(rest.to_owned()),
            "found" => {
                let mut words = rest.split(' ');
                let family = words.next()?.to_owned();
                let pair = |word: &str| {
                    let (key, value) = word.split_once('=')?;
                    Some((ops::parse_key(key).ok()?, value.parse().ok()?))
                };
                let pairs = words.map(pair).collect::<Option<_>>()?;
                Event::Found { family, pairs }
            }
            "begin" | "done" | "unsure" | "undone" => {
                let (actor, rest) = rest.split_once(' ')?;
                let (version, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let (actor, version) = (actor.parse().ok()?, version.parse().ok()?);
                match word {
                    "begin" => Event::Begin {
                        actor,
                        version,
                        op: Ops::parse(rest).ok()?.0.pop()?,
                    },
                    "done" => Event::Done { actor, version },
                    "undone" => Event::Undone { actor, version },
                    _ => Event::Unsure {
                        actor,
                        version,
                        why: rest.to_owned(),
                    },
                }
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Opened => f.write_str("opened"),
            Event::Dumped => f.write_str("dumped"),
            Event::Resumed => f.write_str("resumed"),
            Event::Found { family, pairs } => {
                write!(f, "found {family}")?;
                let mut pairs = pairs.iter();
                pairs.try_for_each(|(key, value)| write!(f, " {}={value}", ops::Key(key)))
            }
            Event::Begin { actor, version, op } => write!(f, "begin {actor} {version} {op}"),
            Event::Done { actor, version } => write!(f, "done {actor} {version}"),
            Event::Undone { actor, version } => write!(f, "undone {actor} {version}"),
            Event::Unsure {
                actor,
                version,
                why,
            } => {
                write!(f, "unsure {actor} {version} {}", one_line(why))
            }
            Event::Stopped(why) => write!(f, "stopped {}", one_line(why)),
            Event::Violation(what) => write!(f, "violation {}", one_line(what)),
            Event::Failure(what) => write!(f, "failure {}", one_line(what)),
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Reports the contents of a database, in which values are described.
pub fn tell_contents(model: &Model, mut tell: impl FnMut(&Event)) {
    for family in model.families() {
        let described = |value: &[u8]| std::str::from_utf8(value).ok()?.parse().ok();
        let pairs = model.scan(family, None, None);
        let pairs = pairs.filter_map(|(key, value)| Some((key.to_vec(), described(value)?)));
        let pairs: Vec<_> = pairs.collect();
        let mut parts = pairs.chunks(FOUND_AT_ONCE);
        // A family without keys is reported, too.
        let first = parts.next().unwrap_or_default();
        for pairs in std::iter::once(first).chain(parts) {
            tell(&Event::Found {
                family: family.to_owned(),
                pairs: pairs.to_vec(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_after_a_way_through_text() {
        let lines = [
            "opened",
            "found own-1",
            "found default 00.0000001=65536*40 00.1000002=590224*4097",
            "dumped",
            "begin 2 17 sync batch [put default 02.0000001 65536*40; delete blobs 02.0000002]",
            "begin 2 18 unlogged put own-2 02.0000001 65536*40",
            "done 2 17",
            "unsure 2 17 no space: append",
            "undone 2 17",
            "stopped no space",
            "resumed",
            "violation d1 of actor 2 is gone",
            "failure corruption: ..",
        ];
        for line in lines {
            assert_eq!(Event::parse(line).unwrap().to_string(), line);
        }
        assert_eq!(Event::parse("begin 2 17 wri"), None);
        assert_eq!(Event::parse("something"), None);
    }

    #[test]
    fn contents_are_told_in_parts() {
        let mut model = crate::keys::nothing();
        model.create_family("default");
        model.create_family("own-1");
        for n in 0..FOUND_AT_ONCE + 1 {
            model.put("default", format!("{n:03}").as_bytes(), b"1*40".to_vec());
        }
        let mut lines = Vec::new();
        tell_contents(&model, |event| lines.push(event.to_string()));
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1..], ["found default 100=1*40", "found own-1"]);
    }
}
