//! The engines behind one interface.
//!
//! An adapter does what users of its engine would write, and no more: it calls the public
//! interface, configured according to [`Settings`]. If an engine has no such call (deletes of
//! ranges, for example) or gives no such guarantee, the adapter does the nearest thing and says so
//! in its notes, which reports print.

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
    /// Its name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// Its configuration, for the reader of a report.
    fn about(&self, settings: &Settings) -> AboutEngine;

    /// Whether writes survive a kill of the process.
    fn survives_kill(&self, _settings: &Settings) -> bool {
        true
    }

    /// Opens the database in this directory, which exists, or creates one.
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>>;
}

/// Receives the value that a lookup found.
pub(crate) type OnValue<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// Receives the values that a lookup of several keys found, with the positions of their keys.
pub(crate) type OnEach<'a> = &'a mut dyn FnMut(usize, &[u8]) -> Result<()>;

/// Receives the keys and values of a scan; returns whether it wants more.
pub(crate) type Visitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// An open database. Dropping it closes it.
pub(crate) trait Store: Send + Sync {
    fn put(&self, key: &Key, value: &[u8]) -> Result<()>;

    /// Whether the key exists; passes its value on, without copying if the engine allows that.
    fn get(&self, key: &Key, value: OnValue<'_>) -> Result<bool>;

    /// Looks up keys, in one call if the engine has one for that.
    fn multi_get(&self, keys: &[Key], value: OnEach<'_>) -> Result<()>;

    /// Passes keys and values from this key on to `entry`, until there are no more or `entry`
    /// stops.
    fn scan(&self, from: &[u8], entry: Visitor<'_>) -> Result<()>;

    fn delete(&self, key: &Key) -> Result<()>;

    /// Deletes every key from the first up to but not including the second.
    fn delete_range(&self, from: &Key, to: &Key) -> Result<()>;

    /// A view of the database as it is now, until it is dropped.
    fn snapshot(&self) -> Result<Box<dyn Held + '_>>;

    /// Bytes that the engine reports as written since it was opened, by kind of file or job.
    fn written(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// Closes the database regularly.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Passes the value found to `value`; returns whether there was one.
fn hand_over(found: Option<&[u8]>, value: OnValue<'_>) -> Result<bool> {
    found.map(value).transpose()?;
    Ok(found.is_some())
}

/// The same for several keys, in order.
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

/// An object that is only kept alive.
pub(crate) trait Held {}

impl<T> Held for T {}

/// The engines that this program was built with, in the order of reports.
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
