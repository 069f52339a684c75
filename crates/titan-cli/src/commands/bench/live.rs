//! The existing keys of a database between steps.

use serde::Serialize;
use titan::Result;
use titan_workload::live::LiveKeys;
use titan_workload::step::ValueSizes;

use super::args::Args;
use super::opened::{Opened, number};
use crate::progress;

/// The database between steps, and the facts known of its keys.
pub(super) struct Open {
    pub(super) database: Opened,
    /// `None` for an existing database, until a step needs it.
    pub(super) live: Option<Live>,
}

/// The existing keys: the base of space amplification.
pub(super) struct Live {
    pub(super) keys: LiveKeys,
    pub(super) known_by: KnownBy,
}

/// Way in which the initial keys of a database were determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KnownBy {
    /// There were none.
    Tracking,
    /// They were counted.
    Scan,
    /// All keys were assumed to exist.
    Assumption,
}

impl Live {
    /// For this database, whose keys are determined in this way.
    pub(super) fn of(args: &Args, database: &Opened, known_by: KnownBy) -> Result<Self> {
        let keys = LiveKeys::none(args.num, ValueSizes::Fixed(args.value_size));
        match known_by {
            KnownBy::Tracking => {}
            KnownBy::Assumption => (0..args.num).for_each(|number| keys.add(number)),
            KnownBy::Scan => {
                let progress = progress::operations("counting keys", None);
                database.for_each_key(|key, stored| {
                    match number(key) {
                        Some(number) if number < args.num => keys.add(number),
                        _ => keys.add_foreign(key.len() as u64 + stored),
                    }
                    progress.inc(1);
                })?;
                progress.finish_and_clear();
            }
        }
        Ok(Live { keys, known_by })
    }
}
