//! The blob files of one version, with sums and links that would otherwise need a walk over all of
//! them.
//!
//! A change costs as much as it changes: copies share the rest ([`SharedMap`]). Sums have more bits
//! than the numbers they add up, so that numbers from damaged files do no harm.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use super::files::{BlobFileMeta, PhysicalBlobFile, SharedBlobFile};
use crate::error::{Error, Result};
use crate::format::BlobFileNumber;
use crate::shared_map::SharedMap;
use crate::version::edit::BlobFileGarbage;

/// The logical blob files of a version, by number; see the [module](self) documentation.
#[derive(Clone, Default)]
pub(crate) struct BlobSet {
    pub(crate) files: SharedMap<BlobFileNumber, BlobFileMeta>,
    /// The physical files that have their records.
    pub(crate) physical: SharedMap<BlobFileNumber, Physical>,
    /// Number of tables that name a file as the oldest to which they point.
    pub(crate) links: SharedMap<BlobFileNumber, u64>,
    pub(crate) live_bytes: u128,
    pub(crate) live_count: u128,
    pub(crate) physical_bytes: u128,
}

/// Facts of a version about a physical file. Not the file itself: a collection relocates the
/// records of all versions out of it, so a version must not pin it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Physical {
    /// Sum over all records of header, key and stored value, as in
    /// [`PhysicalBlobFile::total_bytes`].
    pub(crate) total_bytes: u64,
    /// The logical files whose records it has.
    pub(crate) logical: BTreeSet<BlobFileNumber>,
}

impl Deref for BlobSet {
    type Target = SharedMap<BlobFileNumber, BlobFileMeta>;

    fn deref(&self) -> &Self::Target {
        &self.files
    }
}

impl BlobSet {
    /// Bytes of the records to which tables point.
    pub(crate) fn live_bytes(&self) -> u64 {
        u64::try_from(self.live_bytes).unwrap_or(u64::MAX)
    }

    /// The number of records to which tables point.
    pub(crate) fn live_count(&self) -> u64 {
        u64::try_from(self.live_count).unwrap_or(u64::MAX)
    }

    /// Bytes of all records of all physical files, holes included.
    pub(crate) fn physical_bytes(&self) -> u64 {
        u64::try_from(self.physical_bytes).unwrap_or(u64::MAX)
    }

    /// The physical files.
    pub(crate) fn physical(&self) -> &SharedMap<BlobFileNumber, Physical> {
        &self.physical
    }

    /// Adds a file without garbage.
    ///
    /// # Errors
    /// `Corruption` if it is there already.
    pub(crate) fn add(&mut self, file: SharedBlobFile) -> Result<()> {
        let meta = BlobFileMeta {
            shared: Arc::new(file),
            garbage_count: 0,
            garbage_bytes: 0,
        };
        let number = meta.shared.number;
        if self.files.contains_key(&number) {
            return Err(Error::corruption(format!(
                "an edit adds blob file {number} twice"
            )));
        }
        self.live_bytes += u128::from(meta.live_bytes());
        self.live_count += u128::from(meta.live_count());
        self.attach(number, number, meta.shared.total_bytes);
        self.files.insert(number, meta);
        invariant!(
            self.is_placed(number, number),
            "blob file {number} is added, and no physical file has its records"
        );
        Ok(())
    }

    /// Adds garbage to the known garbage of a file.
    ///
    /// # Errors
    /// `Corruption` if the file is not there, or has less content (BLOB-3: garbage cannot be more
    /// than the bytes written).
    pub(crate) fn add_garbage(&mut self, garbage: &BlobFileGarbage) -> Result<()> {
        let number = garbage.number;
        let Some(meta) = self.files.get_mut(&number) else {
            return Err(Error::corruption(format!(
                "an edit reports garbage in blob file {number}, which does not exist"
            )));
        };
        let before = (meta.live_bytes(), meta.live_count());
        meta.garbage_count = meta.garbage_count.saturating_add(garbage.count);
        meta.garbage_bytes = meta.garbage_bytes.saturating_add(garbage.bytes);
        if meta.garbage_count > meta.shared.total_count
            || meta.garbage_bytes > meta.shared.total_bytes
        {
            return Err(Error::corruption(format!(
                "blob file {number} has more garbage than content"
            )));
        }
        let garbage = (before.0 - meta.live_bytes(), before.1 - meta.live_count());
        invariant!(
            self.live_bytes >= u128::from(garbage.0) && self.live_count >= u128::from(garbage.1),
            "blob file {number} has more garbage than all files have live records"
        );
        self.live_bytes -= u128::from(garbage.0);
        self.live_count -= u128::from(garbage.1);
        Ok(())
    }

    /// Whether the sums and the physical files are those of a walk over all files. Cost: that walk.
    pub(crate) fn has_true_sums(&self) -> bool {
        let sum = |of: fn(&BlobFileMeta) -> u64| -> u128 {
            self.files.values().map(|file| u128::from(of(file))).sum()
        };
        let physical = self.physical.values();
        let bytes: u128 = physical.clone().map(|p| u128::from(p.total_bytes)).sum();
        let placed: BTreeSet<_> = physical.flat_map(|p| p.logical.iter()).collect();
        self.live_bytes == sum(BlobFileMeta::live_bytes)
            && self.live_count == sum(BlobFileMeta::live_count)
            && self.physical_bytes == bytes
            && placed.into_iter().eq(self.files.keys())
    }

    /// Notes that the records of a logical file were relocated from one physical file to another.
    pub(crate) fn relocate(
        &mut self,
        logical: BlobFileNumber,
        from: BlobFileNumber,
        to: &PhysicalBlobFile,
    ) {
        invariant!(
            self.is_placed(logical, from) && from != to.number,
            "records of blob file {logical} are relocated from {from} to {}, and were elsewhere",
            to.number
        );
        self.detach(logical, from);
        self.attach(logical, to.number, to.total_bytes);
        invariant!(
            self.is_placed(logical, to.number) && !self.is_placed(logical, from),
            "records of blob file {logical} are in two physical files, or in none"
        );
        invariant!(
            self.files.contains_key(&logical),
            "records of blob file {logical}, which the set does not have, are relocated"
        );
    }

    /// Whether a physical file has the records of a logical one.
    fn is_placed(&self, logical: BlobFileNumber, physical: BlobFileNumber) -> bool {
        let physical = self.physical.get(&physical);
        physical.is_some_and(|physical| physical.logical.contains(&logical))
    }

    fn attach(&mut self, logical: BlobFileNumber, number: BlobFileNumber, total_bytes: u64) {
        match self.physical.get_mut(&number) {
            Some(physical) => {
                physical.logical.insert(logical);
            }
            None => {
                let logical = BTreeSet::from([logical]);
                let physical = Physical {
                    total_bytes,
                    logical,
                };
                self.physical.insert(number, physical);
                self.physical_bytes += u128::from(total_bytes);
            }
        }
    }

    fn detach(&mut self, logical: BlobFileNumber, number: BlobFileNumber) {
        let Some(physical) = self.physical.get_mut(&number) else {
            return;
        };
        physical.logical.remove(&logical);
        if physical.logical.is_empty() {
            invariant!(
                self.physical_bytes >= u128::from(physical.total_bytes),
                "physical blob file {number} has more bytes than all together"
            );
            self.physical_bytes -= u128::from(physical.total_bytes);
            self.physical.remove(&number);
        }
    }

    /// Notes a new table that names the file as the oldest to which it points.
    pub(crate) fn link(&mut self, file: BlobFileNumber) {
        match self.links.get_mut(&file) {
            Some(links) => *links += 1,
            None => {
                self.links.insert(file, 1);
            }
        }
    }

    /// Notes that a table that named the file as the oldest to which it points was removed.
    pub(crate) fn unlink(&mut self, file: BlobFileNumber) {
        if let Some(links) = self.links.get_mut(&file) {
            invariant!(*links > 0, "blob file {file} is linked by no table");
            *links -= 1;
            if *links == 0 {
                self.links.remove(&file);
            }
        }
    }

    /// Whether a table names the file as the oldest to which it points.
    pub(crate) fn is_linked(&self, file: BlobFileNumber) -> bool {
        self.links.contains_key(&file)
    }

    /// The files to which nothing can point any more. No edit says so. Two rules do, which RocksDB
    /// also applies: nothing points to a file that is older than the oldest that any table names,
    /// and nothing points to a file whose records are all garbage unless a table names it.
    /// `changed` are the files that edits have added, added garbage to or unlinked since the last
    /// call.
    pub(crate) fn unused(&self, changed: &BTreeSet<BlobFileNumber>) -> Vec<BlobFileNumber> {
        let oldest = self.links.keys().next();
        let too_old = |number: &&BlobFileNumber| oldest.is_none_or(|oldest| *number < oldest);
        let mut unused: Vec<_> = self.files.keys().take_while(too_old).copied().collect();
        let newer = changed.iter().filter(|number| !too_old(number));
        unused.extend(newer.filter(|number| {
            let file = self.files.get(number);
            let all_garbage = file.is_some_and(|file| {
                if mutant!(blob_file_deleted_too_early) {
                    file.garbage_count > 0
                } else {
                    file.live_count() == 0
                }
            });
            all_garbage && !self.is_linked(**number)
        }));
        invariant!(
            !unused.iter().any(|number| self.is_linked(*number)),
            "a table points to one of {unused:?}, which are to be dropped"
        );
        unused
    }

    /// Removes a file whose records are in the physical file `place`.
    pub(crate) fn remove(
        &mut self,
        number: BlobFileNumber,
        physical: BlobFileNumber,
    ) -> Option<BlobFileMeta> {
        let removed = self.files.remove(&number)?;
        invariant!(
            self.live_bytes >= u128::from(removed.live_bytes())
                && self.live_count >= u128::from(removed.live_count()),
            "blob file {number} has more live records than all together"
        );
        invariant!(
            self.is_placed(number, physical),
            "blob file {number} is removed, whose records are not in {physical}"
        );
        self.live_bytes -= u128::from(removed.live_bytes());
        self.live_count -= u128::from(removed.live_count());
        self.detach(number, physical);
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{FileNumber, total};
    use crate::version::ObsoleteFiles;
    use crate::version::edit::{BlobFileAddition, Relocation};

    fn number(n: u64) -> BlobFileNumber {
        BlobFileNumber(n)
    }

    fn file(n: u64) -> SharedBlobFile {
        let addition = BlobFileAddition {
            number: number(n),
            count: 10,
            total_bytes: 1000 + n,
            checksum_method: Vec::new(),
            checksum_value: Vec::new(),
            unknown: Vec::new(),
        };
        SharedBlobFile::new(&addition, &Arc::<ObsoleteFiles>::default())
    }

    fn garbage(n: u64, count: u64) -> BlobFileGarbage {
        BlobFileGarbage {
            number: number(n),
            count,
            bytes: count * 100,
            unknown: Vec::new(),
        }
    }

    /// Checks that the sums are those of a walk over all files.
    fn assert_sums(set: &BlobSet) {
        assert_eq!(
            set.live_bytes(),
            total(set.values().map(|f| f.live_bytes()))
        );
        assert_eq!(
            set.live_count(),
            total(set.values().map(|f| f.live_count()))
        );
        let physical = set.physical().values();
        assert_eq!(
            set.physical_bytes(),
            total(physical.clone().map(|p| p.total_bytes))
        );
        let placed: BTreeSet<_> = physical.flat_map(|p| p.logical.clone()).collect();
        assert!(placed.iter().eq(set.keys()));
    }

    #[test]
    fn sums_follow_every_change() {
        let mut set = BlobSet::default();
        (1..=4).for_each(|n| set.add(file(n)).unwrap());
        assert_sums(&set);
        set.add_garbage(&garbage(2, 3)).unwrap();
        assert_sums(&set);
        assert_eq!((set.live_count(), set.live_bytes()), (37, 4010 - 300));
        let moved = Relocation {
            file: number(9),
            map: FileNumber(10),
            count: 17,
            total_bytes: 1700,
            logical: vec![number(2), number(3)],
        };
        let physical = PhysicalBlobFile::of_relocation(&moved, &Arc::default());
        for logical in [2, 3] {
            set.relocate(number(logical), number(logical), &physical);
        }
        assert_sums(&set);
        assert_eq!(set.physical_bytes(), 1001 + 1004 + 1700);
        for (logical, there) in [(2, true), (3, false)] {
            set.remove(number(logical), number(9)).unwrap();
            assert_eq!(set.physical().contains_key(&number(9)), there);
            assert_sums(&set);
        }
        assert!(set.add(file(1)).unwrap_err().is_corruption());
        assert!(set.add_garbage(&garbage(3, 1)).unwrap_err().is_corruption());
        assert!(
            set.add_garbage(&garbage(1, 11))
                .unwrap_err()
                .is_corruption()
        );
    }

    #[test]
    fn numbers_that_are_too_large_to_be_true_do_no_harm() {
        let mut set = BlobSet::default();
        for n in 1..4 {
            let mut file = file(n);
            file.total_bytes = u64::MAX;
            set.add(file).unwrap();
        }
        assert_eq!(set.live_bytes(), u64::MAX);
        set.remove(number(1), number(1)).unwrap();
        set.remove(number(2), number(2)).unwrap();
        set.add_garbage(&garbage(3, 1)).unwrap();
        assert_eq!(set.live_bytes(), u64::MAX - 100);
    }

    #[test]
    fn a_file_stays_while_a_table_may_refer_to_it() {
        let mut set = BlobSet::default();
        (1..=5).for_each(|n| set.add(file(n)).unwrap());
        let unused = |set: &BlobSet, changed: &[u64]| -> Vec<u64> {
            let changed = changed.iter().map(|n| number(*n)).collect();
            set.unused(&changed).iter().map(|n| n.0).collect()
        };
        assert_eq!(unused(&set, &[]), [1, 2, 3, 4, 5], "without tables");
        set.link(number(2));
        set.link(number(2));
        set.link(number(4));
        assert_eq!(unused(&set, &[]), [1]);
        for n in [2, 3] {
            set.add_garbage(&garbage(n, 10)).unwrap();
        }
        assert_eq!(unused(&set, &[2, 3]), [1, 3], "the second is linked");
        set.unlink(number(2));
        assert_eq!(unused(&set, &[2]), [1]);
        set.unlink(number(2));
        assert_eq!(unused(&set, &[2]), [1, 2, 3]);
    }
}
