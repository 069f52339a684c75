//! Batches that are committed only if certain keys were not written meanwhile.
//!
//! The writer checks its conditions itself, in parallel with other writers: it takes the last
//! published sequence number, then the super versions, and looks for newer writes. In the commit
//! pipeline the leader looks only for writes published after that number, and at earlier batches of
//! its group. Nothing is published in between, so the two together are exact. ADR 33 explains why
//! compactions have not dropped the writes that they look for.

use std::sync::Arc;

use crate::batch::{BatchTarget, WriteBatch};
use crate::db::core::family::Family;
use crate::db::core::shared::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::format::key_text::KeyText;
use crate::format::{OpeningId, SequenceNumber};
use crate::read::{Snapshot, WrittenSince};
use crate::write::WriteOptions;
use crate::write::conditions::{Checked, Condition};
use crate::write::pipeline::CommitEnv;

/// Keys that must not have been written since a snapshot, for
/// [`Db::write_if`](crate::Db::write_if).
///
/// Every write of a key counts: a put, also one of the same value, a deletion, also of a key that
/// has no value, and a range deletion that covers the key. While the conditions are alive, so is
/// the snapshot.
///
/// ```
/// # fn main() -> titan::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// use titan::{Conditions, Db, ErrorKind, Options, WriteBatch, WriteOptions};
///
/// let db = Db::open(dir.path(), &Options::default())?;
/// let mut conditions = Conditions::since(&db.snapshot());
/// conditions.unchanged(&*db, "a")?;
/// db.put(b"a", b"1")?;
///
/// let mut batch = WriteBatch::new();
/// batch.put(&*db, "b", "2")?;
/// let refused = db.write_if(batch, &conditions, &WriteOptions::default());
/// assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
/// assert_eq!(db.get(b"b")?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Conditions {
    snapshot: Snapshot,
    /// The opening of the handles that named families.
    opening: Option<OpeningId>,
    /// Shared with the commit queue.
    list: Arc<Vec<Condition>>,
}

impl Conditions {
    /// No conditions yet; later ones are about writes after `snapshot`.
    pub fn since(snapshot: &Snapshot) -> Self {
        Conditions {
            snapshot: snapshot.clone(),
            opening: None,
            list: Arc::default(),
        }
    }

    /// Demands that `key` was not written after the snapshot. A family that was dropped is refused
    /// when the conditions are checked.
    ///
    /// # Errors
    /// `InvalidArgument` if `cf` is a handle of another opening than the handles before.
    pub fn unchanged(
        &mut self,
        cf: impl Into<BatchTarget>,
        key: impl AsRef<[u8]>,
    ) -> Result<&mut Self> {
        self.unchanged_since(cf, key, self.snapshot.sequence())
    }

    /// Demands that `key` was not written after `sequence`, as returned by
    /// [`Db::latest_sequence_number`](crate::Db::latest_sequence_number).
    ///
    /// # Errors
    /// As [`Conditions::unchanged`], and `InvalidArgument` if `sequence` is older than the
    /// snapshot.
    pub fn unchanged_since(
        &mut self,
        cf: impl Into<BatchTarget>,
        key: impl AsRef<[u8]>,
        sequence: SequenceNumber,
    ) -> Result<&mut Self> {
        let target = cf.into();
        if let (Some(own), Some(other)) = (self.opening, target.opening)
            && own != other
        {
            return Err(Error::invalid_argument(
                "the conditions name families by handles of different openings",
            ));
        }
        if sequence < self.snapshot.sequence() {
            // Compactions may have dropped entries that were written in between.
            return Err(Error::invalid_argument(
                "a condition is about writes before its snapshot",
            ));
        }
        self.opening = self.opening.or(target.opening);
        Arc::make_mut(&mut self.list).push(Condition {
            family: target.family,
            key: key.as_ref().to_vec(),
            since: sequence,
        });
        Ok(self)
    }

    /// Number of conditions.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl Shared {
    /// Commits a batch if the conditions hold.
    pub(crate) fn write_if(
        &self,
        batch: &mut WriteBatch,
        conditions: &Conditions,
        options: &WriteOptions,
    ) -> Result<()> {
        self.check_writable()?;
        let checked_to = self.check_conditions(conditions)?;
        gate!("conditions: checked");
        let checked = (!conditions.is_empty()).then(|| {
            Box::new(Checked {
                conditions: Arc::clone(&conditions.list),
                checked_to,
            })
        });
        // The caller keeps the conditions, and with them the snapshot, until this returns.
        self.submit(batch, checked, options)
    }

    /// Fails with `Conflict` if a condition does not hold. Otherwise no write up to the returned
    /// sequence number violates one.
    pub(crate) fn check_conditions(&self, conditions: &Conditions) -> Result<SequenceNumber> {
        self.check_open()?;
        conditions.snapshot.sequence_in(&self.pins.snapshots)?;
        if conditions
            .opening
            .is_some_and(|opening| opening != self.opening.id)
        {
            return Err(Error::invalid_argument(
                "the conditions name families by handles of another database, or of an earlier \
                 opening of this one",
            ));
        }
        // ORDER: the sequence number, then the super versions, other than in reads. Writes
        // published by then are in the super versions loaded. The leader finds later ones.
        let published = self.counters.last_sequence();
        gate!("conditions: sequence number chosen");
        let mut checked_to = published;
        for condition in &*conditions.list {
            if condition.since > published {
                return Err(Error::invalid_argument(
                    "a condition is about a sequence number that no write has yet",
                ));
            }
            let family = self.existing_family(condition.family)?;
            checked_to = checked_to.min(self.check_condition(condition, &family, published)?);
        }
        gate!("conditions: searched");
        Ok(match mutant!(conditions_checked_too_far) {
            true => self.counters.last_sequence(),
            false => checked_to,
        })
    }

    /// Looks for writes that violate a condition, up to `published` or the number returned instead.
    fn check_condition(
        &self,
        condition: &Condition,
        family: &Family,
        published: SequenceNumber,
    ) -> Result<SequenceNumber> {
        let super_version = family.super_version.load();
        // ORDER: after the load, as in reads.
        family.check_exists()?;
        let up_to = super_version.readable_to(published);
        let search = WrittenSince {
            super_version: &super_version,
            open_files: &self.files.open,
            key: &condition.key,
            since: condition.since,
            up_to,
        };
        match search.find()? {
            Some(sequence) => Err(conflict(condition, &family.name, Some(sequence))),
            None => Ok(up_to),
        }
    }

    /// Check by the leader; see [`CommitEnv::validate`](crate::write::pipeline::CommitEnv).
    pub(super) fn validate_condition(
        &self,
        condition: &Condition,
        checked_to: SequenceNumber,
        is_newer: bool,
    ) -> Result<()> {
        let family = self.existing_family(condition.family)?;
        if !is_newer {
            return Ok(());
        }
        // Writes that the writer has checked need no second look: sources without anything newer
        // are skipped.
        let rest = Condition {
            since: condition.since.max(checked_to),
            ..condition.clone()
        };
        let published = self.counters.last_sequence();
        self.check_condition(&rest, &family, published).map(drop)
    }

    /// The error for a condition that an earlier batch of the group violates.
    pub(super) fn conflict_in_group(&self, condition: &Condition) -> Error {
        let family = self.family(condition.family);
        let name = family.as_ref().map_or("", |family| &family.name);
        conflict(condition, name, None)
    }
}

fn conflict(condition: &Condition, family: &str, sequence: Option<SequenceNumber>) -> Error {
    let at = sequence.map(|at| format!(", at {}", at.0));
    let at = at.unwrap_or_default();
    let key = KeyText(&condition.key);
    let since = condition.since.0;
    Error::new(
        ErrorKind::Conflict,
        format!(
            "the key {key} of column family {family} was written after sequence number {since}{at}: \
             read it again, in another transaction or with a newer snapshot, and retry"
        ),
    )
}
