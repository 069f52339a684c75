//! The history of a key, from the outside record.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use titan_testkit::ledger::Place;

use crate::event::Event;

/// The number of lines to show: the last ones matter.
const LINES: usize = 30;

/// The operations on a key, or on a family if no key is given, in order; the last lines.
pub(crate) fn key_history(record: &Path, (name, key): &Place) -> Vec<String> {
    let Ok(file) = File::open(record) else {
        return Vec::new();
    };
    let key = key.as_deref().unwrap_or_default();
    let mut lines = Vec::new();
    let mut concerned = None;
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        let told = match Event::parse(&line) {
            Some(Event::Opened) => Some("opened".to_owned()),
            Some(Event::Begin { actor, version, op }) if op.touches(name, key) => {
                concerned = Some((actor, version));
                Some(line)
            }
            Some(
                Event::Done { actor, version }
                | Event::Undone { actor, version }
                | Event::Unsure { actor, version, .. },
            ) if concerned == Some((actor, version)) => Some(line),
            Some(Event::Found { family, pairs }) if family == *name => {
                let pair = pairs.iter().find(|(found, _)| found == key);
                pair.map(|(_, value)| format!("found {value}"))
            }
            _ => None,
        };
        lines.extend(told);
    }
    lines.split_off(lines.len().saturating_sub(LINES))
}
