//! The interface that every engine is behind.

use std::path::Path;

use anyhow::Result;
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

    pub(in crate::engine) type OnValue<'a> = target::OnValue<'a, Error>;
    pub(in crate::engine) type OnEach<'a> = target::OnEach<'a, Error>;
    pub(in crate::engine) type Visitor<'a> = target::Visitor<'a, Error>;
}
#[cfg(any(
    feature = "fjall",
    feature = "lmdb",
    feature = "redb",
    feature = "rocksdb"
))]
pub(super) use received::{OnEach, OnValue, Visitor};

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
