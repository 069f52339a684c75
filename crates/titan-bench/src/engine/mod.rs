//! The engines behind one interface.
//!
//! An adapter does what users of its engine would write, and no more: it calls the public
//! interface, configured according to [`Settings`]. If an engine has no such call (deletes of
//! ranges, for example) or gives no such guarantee, the adapter does the nearest thing and says so
//! in its notes, which reports print.

pub(crate) mod contract;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod titan;

use anyhow::{Result, bail};

use contract::Engine;

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
