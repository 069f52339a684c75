//! The events that the stressed process reports to the campaign, one per line.
//!
//! The pipe is the outside record. An operation begins only after the line that announces it is
//! in the kernel, so it is known whatever happens to the process; the line that acknowledges it
//! follows when the database has acknowledged it. The order of lines is an order in which things
//! can have happened.

use std::fmt;

use crate::op::{Cell, Key, Op, parse_key};

/// The maximum number of keys in one [`Event::Found`], so that no line becomes long.
const FOUND_AT_ONCE: usize = 100;

/// An event that the stressed process reports to the campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are what their names say")]
pub enum Event {
    /// The database is open.
    Opened,
    /// The contents of an actor's keys; more may follow.
    Found {
        actor: usize,
        own: bool,
        cells: Vec<(Key, Cell)>,
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
                let actor = words.next()?.parse().ok()?;
                let own = words.next()? == "own";
                let cells = words.map(parse_cell).collect::<Option<_>>()?;
                Event::Found { actor, own, cells }
            }
            "begin" | "done" | "unsure" | "undone" => {
                let (actor, rest) = rest.split_once(' ')?;
                let (version, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let (actor, version) = (actor.parse().ok()?, version.parse().ok()?);
                match word {
                    "begin" => Event::Begin {
                        actor,
                        version,
                        op: Op::parse(rest)?,
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

fn parse_cell(text: &str) -> Option<(Key, Cell)> {
    let mut parts = text.split(':');
    let key = parse_key(parts.next()?)?;
    let version = parts.next()?.parse().ok()?;
    let amount = parts.next().map_or(Some(0), |amount| amount.parse().ok())?;
    Some((key, Cell { version, amount }))
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Opened => f.write_str("opened"),
            Event::Dumped => f.write_str("dumped"),
            Event::Resumed => f.write_str("resumed"),
            Event::Found { actor, own, cells } => {
                write!(f, "found {actor} {}", if *own { "own" } else { "none" })?;
                cells.iter().try_for_each(|(key, cell)| match cell.amount {
                    0 => write!(f, " {key}:{}", cell.version),
                    amount => write!(f, " {key}:{}:{amount}", cell.version),
                })
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

/// The events that report the contents of an actor's keys: at least one, even if there are none.
pub fn found(actor: usize, own: bool, cells: &[(Key, Cell)]) -> Vec<Event> {
    let mut events: Vec<Event> = cells
        .chunks(FOUND_AT_ONCE)
        .map(|cells| Event::Found {
            actor,
            own,
            cells: cells.to_vec(),
        })
        .collect();
    if events.is_empty() {
        events.push(Event::Found {
            actor,
            own,
            cells: Vec::new(),
        });
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_after_a_way_through_text() {
        let lines = [
            "opened",
            "found 0 none",
            "found 3 own d1:7 i1000002:9:400",
            "dumped",
            "begin 2 17 write logged +d1 -b2",
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
}
