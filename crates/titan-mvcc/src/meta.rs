//! Numbers that the store records about itself, by name, in the engine's family `default`.
//!
//! Promises that a number survives a power failure once it was set.

use bytes::Bytes;
use titan::{Db, WriteBatch, WriteOptions};

use crate::error::{Error, Result};

/// The format of the store. Only a store of versions has it.
pub(crate) const FORMAT: &str = "format";
/// The safe point. Reads before it are refused.
pub(crate) const SAFE_POINT: &str = "safe point";
/// The end of the lease: no oracle has handed out this timestamp or a later one.
pub(crate) const LEASE: &str = "timestamps leased";
/// The clock's time of a sample whose timestamps were ahead of it, in milliseconds since 1970.
pub(crate) const NOTED_AT: &str = "ahead: noted at";
/// The visible timestamp of that sample.
pub(crate) const NOTED: &str = "ahead: visible";
/// All names.
pub(crate) const KNOWN: [&str; 5] = [FORMAT, SAFE_POINT, LEASE, NOTED_AT, NOTED];

/// The numbers of a store. Clones share them.
#[derive(Clone)]
pub(crate) struct Meta(pub(crate) Db);

impl Meta {
    /// The number under `name`, if it was ever set.
    ///
    /// # Errors
    /// `Corruption` if the value is not a number; those of the engine.
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

    /// Sets one number, durably. Cost: a synced write.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn set(&self, name: &str, number: u64) -> Result<()> {
        self.set_all(&[(name, number)])
    }

    /// Sets all numbers or none, durably. Cost: a synced write.
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
