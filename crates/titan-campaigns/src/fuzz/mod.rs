//! What a fuzzer calls, beside the decoders of `titan::fuzzing`: whole databases.
//!
//! | target | bytes are | holds |
//! |---|---|---|
//! | [`directory`] | damage to the files of a small database | no panic, no hang; what can be read was written once |
//! | [`operations`] | operations, and a crash at their end | the model's answers; a prefix after the crash |
//!
//! Databases to damage are committed in `fuzz/directories`; [`bases::create`] writes them anew.

pub mod bases;
mod certified;
mod checksums;
mod damage;
mod directory;
mod input;
mod operations;
#[cfg(test)]
mod tests;

pub use directory::directory;
pub use operations::operations;

use titan::Options;
use titan_testkit::sim::SimVfs;

use crate::settings::Settings;

/// Options of the databases that are damaged, small ones; one thread works in the background.
fn small(vfs: &SimVfs) -> Options {
    let settings = Settings {
        jobs: 1,
        levels: 7,
        table: 1 << 10,
        ..Settings::default()
    };
    settings.options(vfs)
}
