//! Gives dead bytes of blob files back in their place, without copying what lives between them.
//!
//! Neighbours that are dead are one hole, of whole blocks. It frees space for nothing written, but
//! each hole costs the file system about a millisecond and the file a further extent, so that it is
//! done only to files of which most garbage goes that way, and in which enough lives to be worth
//! keeping in its place.
//!
//! What keeps it safe (BLOB-2): a hole has nothing in it that a version refers to which anybody may
//! read from, as of the moment when they were gathered; later versions refer to no more of the file.
//! The current one is durable. A file with a further name belongs to a checkpoint, too, and is left
//! alone: whoever makes one holds its version until all links are made, so that a file whose link
//! is not there yet has that version's records among those that live.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::choose::Collection;
use super::job::GcContext;
use super::live::{LiveRecord, live_records};
use crate::blob::{BLOB_FILE_FRAME_LEN, BLOB_FILE_HEADER_LEN, BLOCK, whole_blocks};
use crate::error::{Error, Result};
use crate::format::BlobFileNumber;
use crate::format::file_name::FileKind;
use crate::stats::HolePunchEvent;
use crate::version::Version;
use crate::version::files::PhysicalBlobFile;
use crate::vfs::Vfs;

/// Bytes that a hole counts as, where the pace is kept: what a device writes in the time.
const HOLE_COST: u64 = 64 << 10;

/// Punches holes into those files of a collection for which it is worth it; `None` if there are
/// none. `versions` are all that somebody may read from.
///
/// # Errors
/// `Unsupported` if the file system has no holes, or they give nothing back. Whatever the error,
/// nothing was changed but that some holes may be there.
pub(crate) fn run(
    collection: &Collection,
    versions: &[Arc<Version>],
    context: &GcContext<'_>,
) -> Result<Option<HolePunchEvent>> {
    let logical = logical_files(versions, &collection.physical);
    let mut files: BTreeMap<_, _> = logical
        .values()
        .map(|f| (f.number, Arc::clone(f)))
        .collect();
    let summed: BTreeSet<_> = with_checksum(versions).collect();
    let live = live_records(&logical, versions, context.open_files)?;
    let mut event = HolePunchEvent {
        column_family: context.family.id,
        files: Vec::new(),
        holes: 0,
        bytes: 0,
    };
    for (number, records) in live {
        let Some(file) = files.remove(&number) else {
            continue;
        };
        let plan = Plan::of(&file, records);
        // ORDER: the names are counted when what lives is known.
        let path = FileKind::Blob(number).path(&context.factory.dir);
        let whole = summed.contains(&number) || context.factory.vfs.link_count(&path)? > 1;
        if plan.is_worth_it(&file) && !whole {
            event.bytes += plan.punch(&file, context)?;
            event.holes += plan.holes.len() as u64;
            event.files.push(number);
        }
    }
    Ok((!event.files.is_empty()).then_some(event))
}

/// The logical files whose records are in one of the physical ones, with that, as any of the
/// versions knows them: the current one may have lost some that older ones still read.
fn logical_files(
    versions: &[Arc<Version>],
    physical: &[BlobFileNumber],
) -> BTreeMap<BlobFileNumber, Arc<PhysicalBlobFile>> {
    let all = versions
        .iter()
        .flat_map(|version| version.blob_files.values());
    let placed = all.map(|meta| (meta.shared.number, meta.shared.place()));
    placed
        .filter(|(_, place)| physical.contains(&place.number))
        .collect()
}

/// Files whose whole content RocksDB recorded a checksum of.
fn with_checksum(versions: &[Arc<Version>]) -> impl Iterator<Item = BlobFileNumber> {
    let all = versions
        .iter()
        .flat_map(|version| version.blob_files.values());
    all.filter(|meta| !meta.shared.checksum_value.is_empty())
        .map(|meta| meta.shared.number)
}

/// Brings what is known of a file's holes up to date. Cost: a look at the file.
pub(crate) fn measure_holes(vfs: &dyn Vfs, dir: &Path, file: &PhysicalBlobFile) -> Result<()> {
    let size = file.total_bytes.saturating_add(BLOB_FILE_FRAME_LEN);
    let blocks = size.div_ceil(BLOCK).saturating_mul(BLOCK);
    let allocated = vfs.allocated_bytes(&FileKind::Blob(file.number).path(dir))?;
    file.set_holes(blocks.saturating_sub(allocated));
    Ok(())
}

/// Where a file is to have holes.
struct Plan {
    holes: Vec<Range<u64>>,
    /// Bytes of them that are none yet.
    new_bytes: u64,
    /// Bytes of the records that live.
    live: u64,
}

impl Plan {
    fn of(file: &PhysicalBlobFile, mut records: Vec<LiveRecord>) -> Self {
        records.sort_unstable_by_key(|record| record.at);
        let end = BLOB_FILE_HEADER_LEN.saturating_add(file.total_bytes);
        let mut holes = Vec::new();
        let mut dead_from = BLOB_FILE_HEADER_LEN;
        for (start, behind) in records
            .iter()
            .map(|r| (r.start(), r.end()))
            .chain([(end, end)])
        {
            let hole = whole_blocks(dead_from..start.max(dead_from));
            if !hole.is_empty() {
                holes.push(hole);
            }
            dead_from = dead_from.max(behind);
        }
        let bytes: u64 = holes.iter().map(|hole| hole.end - hole.start).sum();
        Plan {
            holes,
            new_bytes: bytes.saturating_sub(file.holes()),
            live: records.iter().map(LiveRecord::len).sum(),
        }
    }

    /// Whether most of the garbage goes, and little would be gained by copying the rest.
    fn is_worth_it(&self, file: &PhysicalBlobFile) -> bool {
        let garbage = file.bytes_on_disk().saturating_sub(self.live);
        let most = self.new_bytes > 0 && self.new_bytes.saturating_mul(2) >= garbage;
        most && self.live.saturating_mul(4) >= file.total_bytes
    }

    /// Returns how many bytes are free now that were not.
    fn punch(&self, file: &PhysicalBlobFile, context: &GcContext<'_>) -> Result<u64> {
        let vfs = &*context.factory.vfs;
        let path = FileKind::Blob(file.number).path(&context.factory.dir);
        let before = file.holes();
        let mut punched = vfs.open_to_punch(&path)?;
        let outcome = self.holes.iter().try_for_each(|hole| {
            (context.keep_pace)(HOLE_COST)?;
            // Never synced: what a crash brings back is dead.
            punched.punch_hole(hole.start, hole.end - hole.start)
        });
        measure_holes(vfs, &context.factory.dir, file)?;
        outcome?;
        let freed = file.holes().saturating_sub(before);
        match freed.saturating_mul(2) >= self.new_bytes {
            true => Ok(freed),
            false => Err(Error::unsupported("holes give no space back").in_file(&path)),
        }
    }
}
