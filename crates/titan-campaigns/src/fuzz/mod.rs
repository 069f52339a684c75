//! Fuzz targets besides the decoders of `titan::fuzzing`: whole databases, and nodes.
//!
//! | target | input | property |
//! |---|---|---|
//! | [`directory`] | damage to the files of a small database | no panic, no hang; only written values are read |
//! | [`operations`] | operations, and a crash at their end | the model's outcomes; then a prefix |
//! | [`requests`] | a request of a node | decoded, encoded and decoded again, it is the same |
//! | [`calls`], [`placement`] | calls to the services of a node | no panic, no hang; the node is sound, also after a crash |
//!
//! The databases to damage are committed in `fuzz/directories`; [`bases::create`] recreates them.

pub mod bases;
mod certified;
mod checksums;
mod damage;
mod directory;
mod input;
mod operations;
#[cfg(feature = "serve")]
mod services;
#[cfg(test)]
mod tests;

pub use directory::directory;
pub use operations::operations;
#[cfg(feature = "serve")]
pub use services::{calls, placement, requests, seeds};

use titan::Options;
use titan_testkit::sim::SimVfs;

use crate::settings::Settings;

/// Options of the databases that are damaged: small files and one background thread.
fn small(vfs: &SimVfs) -> Options {
    let settings = Settings {
        jobs: 1,
        levels: 7,
        table: 1 << 10,
        ..Settings::default()
    };
    settings.options(vfs)
}
