//! Space of the files of a family, and the needed part of it.

use crate::options::ColumnFamilyOptions;
use crate::version::Version;

/// Bytes beyond `max_space_amp` times the live data that the files of a database may take for a
/// time, at most: outputs of running jobs, and data for which small databases have no other room
/// (GC-2).
const MOST_ALLOWED: u64 = 256 << 20;

/// The same where little is live.
const LEAST_ALLOWED: u64 = 32 << 20;

/// The part of the live bytes that is allowed, between the least and the most.
const LIVE_PER_ALLOWED: u64 = 4;

/// The least of several families, for each byte that their memtables may shadow at once. Less would
/// delay writes although no flush is due.
const ALLOWED_PER_SHADOWING: u64 = 3;

/// The most that is allowed if a family has such options: flushes of large write buffers need more.
fn most_allowed(write_buffer_size: u64) -> u64 {
    MOST_ALLOWED.max(write_buffer_size.saturating_mul(4))
}

/// One part in so many is added to estimates of shadowed data: under uniform overwrites they are a
/// quarter low, the bound must be kept, and data that they miss would count as live.
const HIDDEN_MISSED: u64 = 3;

/// The part of the allowance that writes may use up. The rest is for changes between two checks.
const USABLE: f64 = 0.8;

/// The least that is worth collecting at once.
const MIN_COLLECTION: u64 = 4 << 20;

/// The allowance of a database with such a family, if it is more than is promised.
pub(crate) fn loosened_allowance(options: &ColumnFamilyOptions) -> Option<u64> {
    let most = most_allowed(options.write_buffer_size);
    (options.enable_blob_garbage_collection && most > MOST_ALLOWED).then_some(most)
}

/// The live bytes that one collection copies where so many are live. A blob file of more could not
/// be collected in parts.
fn collection_size(live: u64, options: &ColumnFamilyOptions) -> u64 {
    let share = live as f64 * (options.max_space_amp - 1.0) / 8.0;
    let size = (share as u64).max(MIN_COLLECTION);
    options.blob_file_size.min(size)
}

/// The size of the blob files of a flush, in a family with so many live bytes: not larger than the
/// data that one collection copies, if garbage is collected automatically.
pub(crate) fn flushed_blob_file_size(live: u64, options: &ColumnFamilyOptions) -> u64 {
    let collects = options.enable_blob_garbage_collection && !options.disable_auto_compactions;
    match collects {
        true => collection_size(live, options),
        false => options.blob_file_size,
    }
}

/// Bytes of a version's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// Of tables.
    pub(crate) tables: u64,
    /// Of blob files, less their holes and bytes that cannot be freed.
    pub(crate) blob_files: u64,
    /// Of records in blob files to which a table points.
    pub(crate) blob_live: u64,
    /// Those records among them that newer entries shadow: the estimate, and a part more.
    pub(crate) shadowed: u64,
}

impl Space {
    /// The space of a version's tables and of its blob files, less their holes and bytes that
    /// cannot be freed: those that older versions pin, and damaged files.
    pub(super) fn of(version: &Version, blob_files: u64, blob_live: u64) -> Self {
        let space = Space {
            tables: version.table_bytes(),
            blob_files,
            blob_live,
            shadowed: 0,
        };
        space.with_shadowed(version.shadowed_bytes())
    }

    /// The same, where so many bytes more are estimated to be shadowed.
    pub(crate) fn with_shadowed(self, bytes: u64) -> Self {
        let bytes = bytes.saturating_add(bytes / HIDDEN_MISSED);
        Space {
            shadowed: self.shadowed.saturating_add(bytes).min(self.blob_live),
            ..self
        }
    }

    /// Bytes on disk.
    pub(crate) fn on_disk(&self) -> u64 {
        self.tables.saturating_add(self.blob_files)
    }

    /// Bytes of it that present readers need.
    pub(crate) fn live(&self) -> u64 {
        self.tables.saturating_add(self.blob_live - self.shadowed)
    }

    /// The live bytes that one collection copies: its output takes space beside its inputs, so this
    /// is smaller where less is live.
    pub(crate) fn collection_size(&self, options: &ColumnFamilyOptions) -> u64 {
        collection_size(self.live(), options)
    }

    /// Excess of the files over `max_space_amp` times the live data; negative where there is room.
    fn beyond(&self, options: &ColumnFamilyOptions) -> f64 {
        self.on_disk() as f64 - self.live() as f64 * options.max_space_amp
    }

    /// Bytes that a flush and a collection may be writing beside that. A flush of more than the
    /// live data adds to it.
    fn written(&self, options: &ColumnFamilyOptions) -> f64 {
        let flush = options.shadowing_flush(self.live()).min(self.live());
        flush.saturating_add(self.collection_size(options)) as f64
    }

    /// Bytes that a memtable may shadow before it is flushed: all that is stored, at most.
    fn shadowing(&self, options: &ColumnFamilyOptions) -> u64 {
        let stored = self.tables.saturating_add(self.blob_live);
        options.shadowing_flush(stored).min(stored)
    }

    /// Whether the family has a part in exceeding the bound.
    pub(crate) fn exceeds(&self, options: &ColumnFamilyOptions) -> bool {
        self.beyond(options) + self.written(options) > 0.0
    }
}

/// The bound on the files of a whole database: each family has `max_space_amp` times its live data,
/// and there is one allowance beside that for all of them.
///
/// The room of one family is not for the garbage of another, or a large family would let a small
/// one grow. It is for the output of jobs, of which few run at a time, however many families there
/// are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bound {
    /// Bytes by which families exceed theirs.
    beyond: f64,
    /// Bytes that others have room for.
    room: f64,
    live: u64,
    /// Bytes that families may take by their live bytes.
    amplified: f64,
    /// Bytes that memtables may shadow before they are flushed, all at once.
    shadowing: u64,
    write_buffer_size: u64,
    written: f64,
}

impl Bound {
    /// Adds a family.
    pub(crate) fn add(&mut self, space: &Space, options: &ColumnFamilyOptions) {
        let beyond = space.beyond(options);
        self.beyond += beyond.max(0.0);
        self.room += (-beyond).max(0.0);
        self.live = self.live.saturating_add(space.live());
        self.amplified += space.live() as f64 * options.max_space_amp;
        let shadowing = space.shadowing(options);
        self.shadowing = self.shadowing.saturating_add(shadowing);
        self.write_buffer_size = self.write_buffer_size.max(options.write_buffer_size);
        self.written = self.written.max(space.written(options));
    }

    /// Bytes that all files together may take beyond those that their families may take.
    pub(crate) fn allowance(&self) -> u64 {
        let by_live = self.live / LIVE_PER_ALLOWED;
        let by_families = self.shadowing.saturating_mul(ALLOWED_PER_SHADOWING);
        let least = LEAST_ALLOWED.max(by_families);
        by_live.max(least).min(most_allowed(self.write_buffer_size))
    }

    /// Bytes that all files together may take.
    pub(crate) fn bytes(&self) -> u64 {
        (self.amplified as u64).saturating_add(self.allowance())
    }

    /// Excess of the files over the bound, with the bytes that jobs are writing, as a part of the
    /// usable [allowance](Bound::allowance).
    pub(crate) fn excess(&self) -> f64 {
        let jobs = (self.written - self.room).max(0.0);
        (self.beyond + jobs) / (self.allowance() as f64 * USABLE)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rate::must_delay_writes;
    use super::*;

    fn excess<'a>(families: impl IntoIterator<Item = (&'a Space, &'a ColumnFamilyOptions)>) -> f64 {
        let mut bound = Bound::default();
        for (space, options) in families {
            bound.add(space, options);
        }
        bound.excess()
    }

    fn space(live: u64, garbage: u64) -> Space {
        Space {
            tables: 0,
            blob_files: live + garbage,
            blob_live: live,
            shadowed: 0,
        }
    }

    #[test]
    fn a_family_without_garbage_is_within_bounds_whatever_its_write_buffer() {
        for write_buffer_size in [64 << 10, 64 << 20, 64 << 30] {
            let options = ColumnFamilyOptions {
                write_buffer_size,
                ..ColumnFamilyOptions::default()
            };
            for live in (0..40).map(|bits| (1 << bits) - 1) {
                let excess = excess([(&space(live, 0), &options)]);
                assert!(!must_delay_writes(excess), "{live}: {excess}");
            }
        }
    }

    #[test]
    fn garbage_counts_beyond_what_the_amplification_allows() {
        let options = ColumnFamilyOptions::default();
        let excess = |space: Space| excess([(&space, &options)]);
        let space = |garbage| space(4 << 30, garbage);
        let allowed = 2 << 30;
        assert!(excess(space(allowed)) > 0.0, "jobs write, too");
        assert_eq!(excess(space(allowed / 2)), 0.0);
        let step = excess(space(allowed + (1024 << 20) / 5)) - excess(space(allowed));
        assert!((step - 1.0).abs() < 1e-6, "{step}");
        // Shadowed data is as little live as garbage is.
        let hides = Space {
            shadowed: 1 << 30,
            ..space(allowed)
        };
        assert!(excess(hides) > excess(space(allowed)) + 5.0);
    }

    /// Promise for small databases with default options: 2.0 times the live data from 64 MiB on,
    /// 1.75 times from 256 MiB on.
    #[test]
    fn small_databases_have_small_bounds() {
        let options = ColumnFamilyOptions::default();
        for (live, most) in [(64 << 20, 2.0), (256 << 20, 1.75), (1 << 30, 1.75)] {
            let mut bound = Bound::default();
            bound.add(&space(live, 0), &options);
            let bytes = live as f64 * options.max_space_amp + bound.allowance() as f64;
            assert!(bytes <= live as f64 * most, "{live}: {bytes}");
            // Writes are delayed neither much earlier nor much later than in a large database.
            let excess = excess([(&space(live, live / 2), &options)]);
            assert!((0.45..0.7).contains(&excess), "{live}: {excess}");
        }
    }

    #[test]
    fn families_share_one_allowance_and_no_room_for_garbage() {
        let options = ColumnFamilyOptions::default();
        // Far beyond its part, and by half of the allowance of a large database.
        let small = space(40 << 20, (20 << 20) + (110 << 20));
        let one = excess([(&small, &options)]);
        let two = excess([(&small, &options), (&small, &options)]);
        assert!(two > one + 0.5, "{one} {two}");
        let clean = space(100 << 30, 0);
        let beside = excess([(&small, &options), (&clean, &options)]);
        assert!(beside > 0.5, "{beside}");
        // Families without garbage need no allowance each.
        let many = (0..1000).map(|_| (&clean, &options));
        assert_eq!(excess(many), 0.0);
        let nothing = Space::default();
        let empty = excess((0..1000).map(|_| (&nothing, &options)));
        assert!(!must_delay_writes(empty), "{empty}");
    }

    /// Each of the families is flushed once its memtable shadows 8 MiB. Until then no job is due.
    #[test]
    fn many_small_families_may_wait_for_their_flushes() {
        let options = ColumnFamilyOptions::default();
        for families in [1, 2, 4, 8, 16] {
            let half = space(8 << 20, 0).with_shadowed(4 << 20);
            let excess = excess((0..families).map(|_| (&half, &options)));
            // As in a database of one family, which has its room for garbage.
            assert!(excess < 0.45, "{families}: {excess}");
        }
    }

    #[test]
    fn the_allowance_is_small_where_little_lives() {
        let allowance = |live, write_buffer_size| {
            let options = ColumnFamilyOptions {
                write_buffer_size,
                ..ColumnFamilyOptions::default()
            };
            let mut bound = Bound::default();
            bound.add(&space(live, 0), &options);
            bound.allowance() >> 20
        };
        assert_eq!(allowance(0, 64 << 20), 32);
        assert_eq!(allowance(64 << 20, 64 << 20), 32);
        assert_eq!(allowance(256 << 20, 1 << 20), 64);
        assert_eq!(allowance(1 << 30, 64 << 20), 256);
        assert_eq!(allowance(1 << 40, 64 << 20), 256);
        assert_eq!(allowance(1 << 40, 100 << 20), 400);
        assert_eq!(allowance(64 << 20, 100 << 20), 32);
    }
}
