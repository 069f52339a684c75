//! The history of a key, from the outside record.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::event::Event;
use crate::op::Key;

/// The number of lines to show: the last ones matter.
const LINES: usize = 30;

/// The operations on a key, in order; the last lines.
pub(crate) fn key_history(record: &Path, actor: usize, key: Key) -> Vec<String> {
    let Ok(file) = File::open(record) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    let mut concerned = 0;
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        let told = match Event::parse(&line) {
            Some(Event::Opened) => Some("opened".to_owned()),
            Some(Event::Begin {
                actor: who,
                version,
                op,
            }) if who == actor && op.touches(key) => {
                concerned = version;
                Some(line)
            }
            Some(
                Event::Done {
                    actor: who,
                    version,
                }
                | Event::Undone {
                    actor: who,
                    version,
                }
                | Event::Unsure {
                    actor: who,
                    version,
                    ..
                },
            ) if who == actor && version == concerned => Some(line),
            Some(Event::Found {
                actor: who, cells, ..
            }) if who == actor => {
                let cell = cells.iter().find(|(found, _)| *found == key);
                cell.map(|(_, cell)| format!("found version {}", cell.version))
            }
            _ => None,
        };
        lines.extend(told);
    }
    lines.split_off(lines.len().saturating_sub(LINES))
}
