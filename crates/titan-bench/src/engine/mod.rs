//! The engines, behind one interface.
//!
//! An adapter does what its engine's users would write, no more: the calls of its public interface,
//! set up as [`Settings`] ask. Where an engine has no such call (deletes of ranges, say) or makes no
//! such promise, the adapter does the nearest thing and says so in its notes, which reports print.

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod titan;

use std::ops::Deref;
use std::path::Path;

use anyhow::{Result, bail};

use crate::results::AboutEngine;
use crate::settings::Settings;
use crate::work::keys::Key;

/// An engine that can be measured.
pub(crate) trait Engine: Sync {
    /// What it is called on the command line and in reports.
    fn name(&self) -> &'static str;

    /// How it is set up, for the reader of a report.
    fn about(&self, settings: &Settings) -> AboutEngine;

    /// Whether what was written is there after the process was killed.
    fn survives_kill(&self, _settings: &Settings) -> bool {
        true
    }

    /// Opens the database in this directory, which exists, or makes one.
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>>;
}

/// What a lookup hands the value to.
pub(crate) type OnValue<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// What a lookup of several keys hands values to, with the places of their keys.
pub(crate) type OnEach<'a> = &'a mut dyn FnMut(usize, &[u8]) -> Result<()>;

/// What a scan hands keys and values to; it says whether it wants more.
pub(crate) type Visitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// An open database. Dropping it closes it.
pub(crate) trait Store: Send + Sync {
    fn put(&self, key: &Key, value: &[u8]) -> Result<()>;

    /// Whether the key is there; its value is handed over without being copied where the engine
    /// allows that.
    fn get(&self, key: &Key, value: OnValue<'_>) -> Result<bool>;

    /// Looks keys up, in one call where the engine has one for that.
    fn multi_get(&self, keys: &[Key], value: OnEach<'_>) -> Result<()>;

    /// Hands over keys and values from this key on, until there are no more or `entry` says that it
    /// wants no more.
    fn scan(&self, from: &[u8], entry: Visitor<'_>) -> Result<()>;

    fn delete(&self, key: &Key) -> Result<()>;

    /// Deletes every key from the first up to, and not including, the second.
    fn delete_range(&self, from: &Key, to: &Key) -> Result<()>;

    /// A view of the database as it is now, for as long as it is kept.
    fn snapshot(&self) -> Result<Box<dyn Held + '_>>;

    /// Bytes that the engine says it wrote since it was opened, by kind of file or job.
    fn written(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// Closes it, with everything in order.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Hands over what was found; whether anything was.
fn hand_over(found: Option<&[u8]>, value: OnValue<'_>) -> Result<bool> {
    found.map(value).transpose()?;
    Ok(found.is_some())
}

/// The same of several keys, in their order.
fn hand_over_each<V, E>(
    found: impl IntoIterator<Item = std::result::Result<Option<V>, E>>,
    value: OnEach<'_>,
) -> Result<()>
where
    V: Deref<Target = [u8]>,
    E: Into<anyhow::Error>,
{
    for (at, found) in found.into_iter().enumerate() {
        let found = found.map_err(Into::into)?;
        found.map(|bytes| value(at, &bytes)).transpose()?;
    }
    Ok(())
}

/// What is only kept.
pub(crate) trait Held {}

impl<T> Held for T {}

/// What this program was built with, in the order of reports.
pub(crate) fn all() -> Vec<Box<dyn Engine>> {
    vec![
        Box::new(titan::Titan),
        #[cfg(feature = "rocksdb")]
        Box::new(rocksdb::RocksDb::PLAIN),
        #[cfg(feature = "rocksdb")]
        Box::new(rocksdb::RocksDb::WITH_BLOB_FILES),
        #[cfg(feature = "fjall")]
        Box::new(fjall::Fjall),
        #[cfg(feature = "lmdb")]
        Box::new(lmdb::Lmdb),
        #[cfg(feature = "redb")]
        Box::new(redb::Redb),
    ]
}

/// The engine of this name.
pub(crate) fn named(name: &str) -> Result<Box<dyn Engine>> {
    let all = all();
    let names: Vec<&str> = all.iter().map(|engine| engine.name()).collect();
    let names = names.join(", ");
    match all.into_iter().find(|engine| engine.name() == name) {
        Some(engine) => Ok(engine),
        None => bail!("no engine is called {name}; this program was built with {names}"),
    }
}

#[cfg(test)]
mod tests;
