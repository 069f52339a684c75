//! What the store keeps about itself: numbers under names, in the engine's family `default`.
//!
//! Promises that what was set survives a power failure.

use bytes::Bytes;
use titan::{Db, WriteBatch, WriteOptions};

use crate::error::{Error, Result};

/// Says that the database is a store of versions, and in which format.
pub(crate) const FORMAT: &str = "format";
/// No version is read before this timestamp.
pub(crate) const SAFE_POINT: &str = "safe point";
/// No oracle of the store has handed out a timestamp from this one on.
pub(crate) const LEASE: &str = "timestamps leased";
/// A time by the clock at which timestamps were ahead of it, in milliseconds since 1970,
pub(crate) const NOTED_AT: &str = "ahead: noted at";
/// and what was visible then.
pub(crate) const NOTED: &str = "ahead: visible";
/// All names.
pub(crate) const KNOWN: [&str; 5] = [FORMAT, SAFE_POINT, LEASE, NOTED_AT, NOTED];

/// The numbers. Clones are the same ones.
#[derive(Clone)]
pub(crate) struct Meta(pub(crate) Db);

impl Meta {
    /// The number of this name, if it was ever set.
    ///
    /// # Errors
    /// `Corruption` if it is no number; those of the engine.
    pub(crate) fn get(&self, name: &str) -> Result<Option<u64>> {
        let number = |value: Bytes| match (*value).try_into() {
            Ok(bytes) => Ok(u64::from_be_bytes(bytes)),
            Err(_) => Err(Error::corrupt_entry(
                "default",
                name.as_bytes(),
                "its value must have 8 bytes",
            )),
        };
        self.0.get(name.as_bytes())?.map(number).transpose()
    }

    /// Sets a number, durably. Cost: a synced write.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn set(&self, name: &str, number: u64) -> Result<()> {
        self.set_all(&[(name, number)])
    }

    /// Sets numbers, all or none. Cost: a synced write.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn set_all(&self, numbers: &[(&str, u64)]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (name, number) in numbers {
            batch.put(&*self.0, name, number.to_be_bytes())?;
        }
        Ok(self.0.write(batch, &WriteOptions::synced())?)
    }
}
