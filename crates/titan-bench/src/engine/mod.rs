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

use std::path::Path;

use anyhow::{Result, bail};
use titan_workload::target::Target;

use crate::results::AboutEngine;
use crate::settings::Settings;

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

/// See [`target`]; an adapter's errors are those of this program.
#[cfg(any(
    feature = "fjall",
    feature = "lmdb",
    feature = "redb",
    feature = "rocksdb"
))]
mod received {
    use anyhow::Error;
    use titan_workload::target;

    pub(super) type OnValue<'a> = target::OnValue<'a, Error>;
    pub(super) type OnEach<'a> = target::OnEach<'a, Error>;
    pub(super) type Visitor<'a> = target::Visitor<'a, Error>;
}
#[cfg(any(
    feature = "fjall",
    feature = "lmdb",
    feature = "redb",
    feature = "rocksdb"
))]
use received::{OnEach, OnValue, Visitor};

/// An open database. Dropping it closes it.
pub(crate) trait Store: Target<Error = anyhow::Error> {
    /// A view of the database as it is now, until it is dropped.
    fn snapshot(&self) -> Result<Box<dyn Held + '_>>;

    /// Bytes that the engine reports as written since it was opened, by kind of file or job.
    fn written(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// Closes the database regularly.
    fn close(self: Box<Self>) -> Result<()>;
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
