//! Reads the database into the kernel's page cache before it is needed.
//!
//! After a start every read of a key waits for the device, at least once, until the cache has the
//! data in use. If the whole database fits in memory, a thread reads it once from front to back,
//! newest files first, which takes seconds instead of minutes. If it does not, the thread reads the
//! tables with pointers to blob files, and the relocation maps, as far as they fit: they are small
//! compared with the values, and each read needs them first.
//!
//! Only the cache changes: a failure is met again, and reported, by the reader that needs the file.

use std::sync::Arc;
use std::time::Duration;

use super::job::{Job, JobSource, Running, claimed};
use crate::db::core::family::Family;
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::State;
use crate::env::Threads;
use crate::error::Result;
use crate::format::ColumnFamilyId;
use crate::format::file_name::FileKind;
use crate::options::DataInMemory;
use crate::panics::contain;
use crate::sorting;
use crate::stats;
use crate::vfs::{Access, ReadableFile};

/// Bytes read at once. The kernel is told of the next piece before the last one is waited for.
const PIECE: u64 = 1 << 20;

/// Bytes read after which it is checked again how much fits.
const CHECK_EVERY: u64 = 256 << 20;

/// The longest pause between two pieces, which leaves the device to others' reads.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// A file to be read.
struct Wanted {
    file: FileKind,
    size: u64,
}

/// Bytes that may be read, and bytes that were.
struct Allowance {
    /// Whether the database fits as a whole, or else only as much is read as there is room for.
    everything: bool,
    /// Bytes that may be read.
    room: u64,
    /// Bytes that were read.
    read: u64,
    /// Bytes that had been read when the room was last determined.
    checked_at: u64,
}

impl Shared {
    /// Whether there may be anything to do: not if the available memory is unknown.
    pub(super) fn wants_warm_up(&self) -> bool {
        match self.opening.options.load().data_in_memory {
            DataInMemory::Auto => self.files.device.resources().memory.is_some(),
            DataInMemory::Always => true,
            DataInMemory::Never => false,
        }
    }
}

/// Once, after an opening.
pub(super) const WARM_UPS: JobSource = JobSource {
    threads: Threads::WarmUp,
    takes_long: false,
    // Nobody waits for it.
    is_due: |_, _| false,
    claim: |_, state| {
        let family = state.families.get(&ColumnFamilyId::DEFAULT)?;
        let family = Arc::clone(&family.family);
        if !std::mem::take(&mut state.warm_up_due) {
            return None;
        }
        state.begin(RunningJob::WarmUp, family.id);
        Some(claimed(WarmUp { family }))
    },
};

/// The only warm-up of an opening.
struct WarmUp {
    /// The default one, which is never dropped.
    family: Arc<Family>,
}

impl Job for WarmUp {
    const DOING: &'static str = "warming up the cache for";
    type Done = ();
    type Claim = ();

    fn kind(&self) -> RunningJob {
        RunningJob::WarmUp
    }

    fn family(&self) -> &Arc<Family> {
        &self.family
    }

    fn run(self, shared: &Shared) -> (Result<()>, ()) {
        // A file system of the application may panic; that concerns no data. In a look at versions
        // it stops writes.
        let _ = contain(|| shared.warm_up());
        (Ok(()), ())
    }

    fn release((): (), _: &Result<()>, _: &mut State) {}
}

impl Shared {
    /// Reads the files that fit. Ends early when the database closes, or no longer fits.
    fn warm_up(&self) {
        gate!("warm-up: begun");
        let everything = self.while_counted(|| self.memory_fit()).fits;
        let mut allowance = Allowance {
            everything,
            room: self.room_to_read(everything),
            read: 0,
            checked_at: 0,
        };
        let files = self.while_counted(|| match everything {
            true => self.all_files(),
            false => self.pointers_and_maps(),
        });
        let mut buffer = vec![0; PIECE as usize];
        for Wanted { file, size } in files {
            if !self.may_read(size, &mut allowance) {
                return;
            }
            // It may be gone: a compaction has replaced it by files that are in the cache.
            if let Ok(open) = self
                .files
                .vfs
                .open(&file.path(&self.files.dir), Access::Random)
            {
                self.read_into_cache(&*open, size, &mut allowance, &mut buffer);
            }
        }
    }

    /// Bytes that may be read now, of all files or of those needed first. Bytes that were read are
    /// in the cache, which counts as available memory.
    fn room_to_read(&self, everything: bool) -> u64 {
        let fit = self.while_counted(|| self.memory_fit());
        match everything {
            true if fit.fits => u64::MAX,
            true => 0,
            false => fit.room.unwrap_or(0),
        }
    }

    /// Whether `bytes` more may be read.
    fn may_read(&self, bytes: u64, allowance: &mut Allowance) -> bool {
        if allowance.read - allowance.checked_at >= CHECK_EVERY {
            allowance.checked_at = allowance.read;
            allowance.room = self.room_to_read(allowance.everything);
        }
        allowance.read.saturating_add(bytes) <= allowance.room && !self.lifecycle.is_closed()
    }

    /// Looks at versions. A look pins them, so a caller that waits for the database to be idle, and
    /// for files to be deleted, must wait for it, too.
    fn while_counted<T>(&self, look: impl FnOnce() -> T) -> T {
        let family = ColumnFamilyId::DEFAULT;
        if mutant!(warm_up_does_not_count) {
            return look();
        }
        self.state.lock().begin(RunningJob::WarmUpLook, family);
        let running = Running::counted(self, family, RunningJob::WarmUpLook);
        let seen = look();
        running.end();
        seen
    }

    /// All files, tables first: each read of a value needs one.
    fn all_files(&self) -> Vec<Wanted> {
        let (mut tables, mut blobs) = (Vec::new(), Vec::new());
        let versions = self.current_versions();
        gate!("warm-up: versions pinned");
        for version in versions {
            let all = version.tables().map(|(_, table)| Wanted {
                file: FileKind::Table(table.number()),
                size: table.size(),
            });
            tables.extend(all);
            for (physical, _) in version.physical_blob_files().values() {
                let map = physical.map.map(|map| self.map_file(map));
                blobs.extend(map);
                blobs.push(Wanted {
                    file: FileKind::Blob(physical.number),
                    size: physical.total_bytes,
                });
            }
        }
        newest_first(&mut tables);
        newest_first(&mut blobs);
        tables.extend(blobs);
        tables
    }

    /// The tables with pointers to blob files, and all relocation maps.
    fn pointers_and_maps(&self) -> Vec<Wanted> {
        let mut files = Vec::new();
        for version in self.current_versions() {
            let tables = version.tables().map(|(_, table)| table);
            let pointers = tables.filter(|table| table.meta.oldest_blob_file.is_some());
            files.extend(pointers.map(|table| Wanted {
                file: FileKind::Table(table.number()),
                size: table.size(),
            }));
            let places = version.physical_blob_files();
            let maps = places.values().filter_map(|(physical, _)| physical.map);
            files.extend(maps.map(|map| self.map_file(map)));
        }
        newest_first(&mut files);
        files
    }

    fn map_file(&self, map: crate::FileNumber) -> Wanted {
        let file = FileKind::BlobMap(map);
        // A missing one takes nothing.
        let size = self
            .files
            .vfs
            .size(&file.path(&self.files.dir))
            .unwrap_or(0);
        Wanted { file, size }
    }

    /// Reads a file into the cache, piece by piece, and yields to reads of users. A hint is not
    /// enough: the kernel follows one only as far as the device's queue has room, and does not say
    /// how far.
    fn read_into_cache(
        &self,
        file: &dyn ReadableFile,
        size: u64,
        allowance: &mut Allowance,
        buffer: &mut [u8],
    ) {
        let clock = &*self.opening.clock;
        let piece = |at: u64| PIECE.min(size - at);
        let mut at = 0;
        if size > 0 {
            file.prefetch(0, piece(0) as usize);
        }
        while at < size && self.may_read(piece(at), allowance) {
            let (began, active) = (clock.monotonic(), self.opening.statistics.activity());
            let end = at + piece(at);
            if end < size {
                file.prefetch(end, piece(end) as usize);
            }
            let wanted = buffer.get_mut(..(end - at) as usize).unwrap_or_default();
            let Ok(read) = file.read_at(at, wanted) else {
                return;
            };
            allowance.read = allowance.read.saturating_add(read as u64);
            stats::add(&self.opening.statistics.prefetched_bytes, read as u64);
            if (read as u64) < end - at {
                return;
            }
            if self.opening.statistics.activity() != active {
                let took = clock.monotonic().saturating_sub(began);
                self.pause(took.min(LONGEST_PAUSE), || false);
            }
            at = end;
        }
    }
}

fn newest_first(files: &mut [Wanted]) {
    sorting::sort_by_key(files, |wanted| std::cmp::Reverse(wanted.file.number()));
}
