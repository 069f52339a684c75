//! What the files of a family measure, and what of that is needed.

use super::choose::Judged;
use super::report::Verdict;
use crate::format::total;
use crate::options::ColumnFamilyOptions;
use crate::version::Version;

/// Bytes beyond `max_space_amp` times what lives that files may take for a time: outputs of jobs
/// that run, and what small databases have no other room for (GC-2).
const SPACE_CONSTANT: u64 = 256 << 20;

/// The same of a family with these options: flushes of large write buffers need more.
pub(crate) fn space_constant(options: &ColumnFamilyOptions) -> u64 {
    SPACE_CONSTANT.max(options.write_buffer_size.saturating_mul(4))
}

/// One part in so many is added to estimates of hidden garbage: under uniform overwrites they are a
/// quarter low, a bound is to be kept, and what they miss would be taken to live.
const HIDDEN_MISSED: u64 = 3;

/// The part of the constant that writes may use up. The rest is for what happens between two looks.
const USABLE: f64 = 0.6;

/// The least that is worth collecting at once.
const MIN_COLLECTION: u64 = 8 << 20;

/// The constant of a family where it is more than what is promised to others.
pub(crate) fn loosened_constant(options: &ColumnFamilyOptions) -> Option<u64> {
    let constant = space_constant(options);
    (options.enable_blob_garbage_collection && constant > SPACE_CONSTANT).then_some(constant)
}

/// Bytes of a version's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// Of tables.
    pub(crate) tables: u64,
    /// Of blob files, less their holes and what cannot be helped.
    pub(crate) blob_files: u64,
    /// Of records in blob files that a table refers to.
    pub(crate) blob_live: u64,
    /// Those records among them that newer entries hide: what is estimated, and a part more.
    pub(crate) hidden: u64,
}

impl Space {
    /// Without what cannot be helped: what older versions hold, and damaged files.
    pub(super) fn of(version: &Version, files: &[Judged<'_>]) -> Self {
        let files = || files.iter().filter(|f| f.verdict != Verdict::Damaged);
        let blob_live = total(files().map(|f| f.live));
        let hidden = version.hidden_garbage_bytes();
        Space {
            tables: total(version.tables().map(|(_, table)| table.size())),
            blob_files: total(files().map(|f| f.file.bytes_on_disk().saturating_sub(f.held))),
            blob_live,
            hidden: hidden.saturating_add(hidden / HIDDEN_MISSED).min(blob_live),
        }
    }

    /// What is on disk.
    pub(crate) fn on_disk(&self) -> u64 {
        self.tables.saturating_add(self.blob_files)
    }

    /// What readers of now need of it.
    pub(crate) fn live(&self) -> u64 {
        self.tables.saturating_add(self.blob_live - self.hidden)
    }

    /// The live bytes that one collection copies: what it writes stands beside what it replaces, so
    /// that this is the smaller the less there is.
    pub(crate) fn collection_size(&self, options: &ColumnFamilyOptions) -> u64 {
        let share = self.live() as f64 * (options.max_space_amp - 1.0) / 8.0;
        options
            .blob_file_size
            .min((share as u64).max(MIN_COLLECTION))
    }

    /// How far the files are beyond `max_space_amp` times what lives, with what a flush and a
    /// collection are writing, as a part of what of the [constant](space_constant) is usable.
    pub(crate) fn excess(&self, options: &ColumnFamilyOptions) -> f64 {
        let bound = self.live() as f64 * options.max_space_amp;
        let written = options.write_buffer_size + self.collection_size(options);
        let usable = space_constant(options) as f64 * USABLE;
        (self.on_disk().saturating_add(written) as f64 - bound) / usable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_family_is_within_bounds_whatever_its_write_buffer() {
        for write_buffer_size in [64 << 10, 64 << 20, 64 << 30] {
            let options = ColumnFamilyOptions {
                write_buffer_size,
                ..ColumnFamilyOptions::default()
            };
            let excess = Space::default().excess(&options);
            assert!(!super::super::pace::must_delay_writes(excess), "{excess}");
        }
    }

    #[test]
    fn garbage_counts_beyond_what_the_amplification_allows() {
        let options = ColumnFamilyOptions::default();
        let space = |garbage: u64| Space {
            tables: 0,
            blob_files: (4 << 30) + garbage,
            blob_live: 4 << 30,
            hidden: 0,
        };
        let allowed = 2 << 30;
        assert!(space(allowed).excess(&options) > 0.0, "jobs write, too");
        assert!(space(allowed / 2).excess(&options) < 0.0);
        let step =
            space(allowed + (768 << 20) / 5).excess(&options) - space(allowed).excess(&options);
        assert!((step - 1.0).abs() < 1e-6, "{step}");
        // Hidden garbage lives as little as known garbage.
        let hides = Space {
            hidden: 1 << 30,
            ..space(allowed)
        };
        assert!(hides.excess(&options) > space(allowed).excess(&options) + 5.0);
    }
}
