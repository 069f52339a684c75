//! Punches holes: gives garbage in blob files back to the file system, without copying the live
//! records between it.
//!
//! Neighbouring dead records are one hole, of whole blocks. A hole frees space without writing, but
//! it costs the file system about a millisecond and the file a further extent. So holes are punched
//! only in files where most of the garbage goes in holes of some size, and which have enough live
//! records to be worth keeping.
//!
//! Punching is safe (BLOB-2): a hole has nothing to which any version that may be read from
//! pointed when the live records were gathered, and later versions point to no more of the file.
//! The current version is durable. A file with a further name belongs to a checkpoint, too, and is
//! left alone: a checkpoint pins its version until all links are made, so that the live records of
//! a file whose link is not there yet include that version's. Nor is a file punched that another
//! process reads as of an earlier moment: that process guards its files, then checks whether the
//! moment is still the newest, and as long as it was, nothing in them was dead.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::job::GcContext;
use super::live::LiveFile;
use super::selection::Collection;
use crate::blob::{BLOB_FILE_FRAME_LEN, BLOB_FILE_HEADER_LEN, BLOCK, BlobReaders, whole_blocks};
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, total};
use crate::number_map::NumberMap;
use crate::stats::HolePunchEvent;
use crate::version::state::files::{PhysicalBlobFile, SharedBlobFile};
use crate::vfs::Vfs;

/// Bytes that a hole counts as towards the rate: those that a slow device writes in the time.
const HOLE_COST: u64 = 64 << 10;
/// The least average size of the holes in a file.
const MIN_MEAN_HOLE: u64 = 2 * BLOCK;
/// The least part of a file that is given back at once, as a divisor: the file system itself may
/// take as much as a smaller part to remember the holes.
const MIN_PART: u64 = 64;

/// The files of a collection for which holes are worth it. Cost: opens each of them.
///
/// # Errors
/// `Corruption` if a file is not the expected one.
pub(crate) fn plan(
    collection: &Collection,
    live: &NumberMap<BlobFileNumber, LiveFile>,
    context: &GcContext<'_>,
) -> Result<Vec<Plan>> {
    let mut plans = Vec::new();
    for (number, live) in live {
        let plan = Plan::of(live);
        // RocksDB recorded a checksum of the whole file.
        let summed = |file: &SharedBlobFile| !file.checksum_value.is_empty();
        let mut logical = collection.logical.iter();
        if !plan.is_worth_it() || logical.any(|file| file.number == *number && summed(file)) {
            continue;
        }
        let reader = context.open_files.reader(*number)?;
        reader.check_family(context.family.id)?;
        reader.check_records(plan.file.total_bytes)?;
        plans.push(plan);
    }
    Ok(plans)
}

/// Punches the holes, except in files that have another name, or that another process guards. Bytes
/// freed before an error are reported in any case.
///
/// # Errors
/// `Unsupported` if the file system has no holes, or they give nothing back.
pub(crate) fn run(plans: Vec<Plan>, context: &GcContext<'_>) -> (HolePunchEvent, Result<()>) {
    let mut event = HolePunchEvent {
        column_family: context.family.id,
        files: Vec::new(),
        holes: 0,
        bytes: 0,
    };
    let outcome = plans
        .into_iter()
        .try_for_each(|plan| plan.punch(context, &mut event));
    (event, outcome)
}

/// Updates the known bytes of a file's holes. Cost: reads the metadata of the file.
pub(crate) fn measure_holes(vfs: &dyn Vfs, dir: &Path, file: &PhysicalBlobFile) -> Result<()> {
    let path = FileKind::Blob(file.number).path(dir);
    let size = file.total_bytes.saturating_add(BLOB_FILE_FRAME_LEN);
    let blocks = size.div_ceil(BLOCK).saturating_mul(BLOCK);
    let allocated = vfs
        .allocated_bytes(&path)
        .map_err(|e| e.of_live_file(&path))?;
    file.set_hole_bytes(blocks.saturating_sub(allocated));
    Ok(())
}

/// Where a file will have holes.
pub(crate) struct Plan {
    file: Arc<PhysicalBlobFile>,
    holes: Vec<Range<u64>>,
    /// Bytes of the holes.
    bytes: u64,
    /// Bytes of those that are not holes yet.
    new_bytes: u64,
    /// Bytes of the live records.
    live: u64,
}

impl Plan {
    fn of(live: &LiveFile) -> Self {
        let mut records: Vec<_> = live.records.iter().map(|r| (r.start(), r.end())).collect();
        records.sort_unstable();
        let end = BLOB_FILE_HEADER_LEN.saturating_add(live.file.total_bytes);
        let mut holes = Vec::new();
        let mut dead_from = BLOB_FILE_HEADER_LEN;
        for (start, behind) in records.iter().copied().chain([(end, end)]) {
            let hole = whole_blocks(dead_from..start.max(dead_from));
            if !hole.is_empty() {
                holes.push(hole);
            }
            dead_from = dead_from.max(behind);
        }
        invariant!(
            holes.windows(2).all(|pair| match pair {
                [a, b] => a.end <= b.start,
                _ => true,
            }),
            "holes of blob file {} overlap",
            live.file.number
        );
        invariant!(
            holes.last().is_none_or(|hole| hole.end <= end),
            "a hole of blob file {} ends after its last record",
            live.file.number
        );
        let bytes = total(holes.iter().map(|hole| hole.end - hole.start));
        Plan {
            file: Arc::clone(&live.file),
            holes,
            bytes,
            new_bytes: bytes.saturating_sub(live.file.hole_bytes()),
            live: total(records.iter().map(|(start, end)| end - start)),
        }
    }

    /// Whether most of the garbage goes in holes of some size, and little would be gained by
    /// copying the rest.
    fn is_worth_it(&self) -> bool {
        let on_disk = self.file.bytes_on_disk();
        let garbage = on_disk.saturating_sub(self.live);
        let most = self.new_bytes.saturating_mul(2) >= garbage;
        let much = self.new_bytes > on_disk / MIN_PART;
        let large = self.bytes / MIN_MEAN_HOLE >= self.holes.len() as u64;
        most && much && large && self.live.saturating_mul(4) >= self.file.total_bytes
    }

    fn punch(self, context: &GcContext<'_>, event: &mut HolePunchEvent) -> Result<()> {
        let (vfs, file) = (&*context.env.vfs, &*self.file);
        let path = FileKind::Blob(file.number).path(&context.env.dir);
        // ORDER: the names are counted after the live records were gathered.
        let punched_anyway = mutant!(hole_in_a_linked_file);
        if vfs.link_count(&path)? > 1 && !punched_anyway {
            return Ok(());
        }
        let before = file.hole_bytes();
        let mut punched = Vec::new();
        let outcome = self.punch_each(vfs, &path, context, &mut punched);
        let guarded = matches!(&outcome, Err(e) if e.kind() == ErrorKind::Locked);
        let measured = measure_holes(vfs, &context.env.dir, file);
        let freed = file.hole_bytes().saturating_sub(before);
        if !punched.is_empty() {
            event.files.push(file.number);
        }
        event.holes += punched.len() as u64;
        event.bytes += freed;
        file.add_holes(punched);
        if guarded {
            return measured;
        }
        outcome.and(measured)?;
        match freed.saturating_mul(2) >= self.new_bytes {
            true => Ok(()),
            false => Err(Error::unsupported("holes give no space back").in_file(&path)),
        }
    }

    fn punch_each(
        &self,
        vfs: &dyn Vfs,
        path: &Path,
        context: &GcContext<'_>,
        punched: &mut Vec<Range<u64>>,
    ) -> Result<()> {
        let mut file = vfs.open_to_punch(path)?;
        for hole in self.holes.iter().filter(|hole| !self.file.has_hole(hole)) {
            (context.limit_rate)(HOLE_COST)?;
            // Never synced: data that a crash brings back is dead.
            file.punch_hole(hole.start, hole.end - hole.start)?;
            punched.push(hole.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::FileNumber;
    use crate::gc::live::LiveRecord;
    use crate::table::BlobRef;
    use crate::version::ObsoleteFiles;
    use crate::version::edit::Relocation;

    #[test]
    fn holes_are_between_the_live_records_also_beyond_4_gib() {
        const KEY: u32 = 10;
        // More than 4 GiB, not in whole blocks; every third record is dead.
        let (count, len) = (300, (16 << 20) + 1000);
        let start = |n: u64| BLOB_FILE_HEADER_LEN + n * len;
        let live = |n: &u64| n % 3 != 1;
        let record = |n: u64| {
            let size = len - 32 - u64::from(KEY);
            let at = start(n) + 32 + u64::from(KEY);
            let reference = BlobRef {
                offset: at,
                key_len: KEY,
                size,
            };
            LiveRecord {
                logical: BlobFileNumber(8),
                reference,
                at,
            }
        };
        let relocation = Relocation {
            file: BlobFileNumber(8),
            map: FileNumber(9),
            count,
            total_bytes: count * len,
            logical: vec![BlobFileNumber(8)],
        };
        let obsolete = Arc::new(ObsoleteFiles::default());
        let plan = Plan::of(&LiveFile {
            file: Arc::new(PhysicalBlobFile::of_relocation(&relocation, &obsolete)),
            records: (0..count).filter(live).map(record).collect(),
        });
        let hole = |n: u64| start(n).div_ceil(BLOCK) * BLOCK..start(n + 1) / BLOCK * BLOCK;
        let holes: Vec<_> = (0..count).filter(|n| !live(n)).map(hole).collect();
        assert_eq!(plan.holes, holes);
        assert!(holes.last().is_some_and(|hole| hole.start > 1 << 32));
        assert!(plan.is_worth_it());
    }
}
