//! Assigns tables of unknown column family: neither a MANIFEST nor the table itself names it.
//!
//! Families have keys in common: a table assigned to the wrong family would show values that the
//! family never had, and shadow its own. So only facts under a checksum count. A blob file has
//! values of one family, so tables that refer to it are of one family too. The family in a blob
//! file's header does not count: it has no checksum, and files may have been exchanged.
//!
//! A table that was written outside of the database and ingested need not name a family. It is
//! assigned to the default family if no other one is known, as in RocksDB. A table whose
//! properties are lost did name a family; that no other is known now proves nothing, because
//! OPTIONS need not know families created since the last opening. It gets a family of its own,
//! from which users can take what they know to be theirs.

use std::collections::BTreeSet;

use titan::internals::format::{FileKind, InternalKeyComparator};
use titan::internals::options::{CF_OPTIONS, OptionsFile};
use titan::internals::vfs::read_file;
use titan::{BlobFileNumber, ColumnFamilyId, FileNumber, Result};

use super::family::Family;
use super::state::Repair;
use super::table::Table;

/// Tables of one family, which is unknown: blob files connect any two of them, directly or through
/// others.
struct Kin {
    tables: BTreeSet<FileNumber>,
    blob_files: BTreeSet<BlobFileNumber>,
    /// Whether they were written outside of the database, without knowledge of its families.
    foreign: bool,
}

impl Repair<'_> {
    /// Assigns these tables. Tables stay unassigned if nothing of them can be read, or if their
    /// family turns out to have another key order than they were read in.
    pub(super) fn adopt_orphans(&mut self) -> Result<()> {
        let orphans = self.orphans();
        if orphans.is_empty() {
            return Ok(());
        }
        let default_is_alone = self.default_is_alone()?;
        for kin in orphans {
            let id = match self.family_of(&kin) {
                None if kin.foreign && default_is_alone => Some(ColumnFamilyId::DEFAULT),
                None => self.found_family(&kin),
                known => known,
            };
            let order = id.and_then(|id| Some(self.families.get(&id)?.comparator.clone()));
            let own = self.found.listed.values_mut();
            for table in own.filter(|table| kin.tables.contains(&table.number())) {
                let read_in = table.comparator.user().name();
                let fits = |order: &InternalKeyComparator| order.user().name() == read_in;
                table.family = id.filter(|_| order.as_ref().is_none_or(fits));
            }
        }
        Ok(())
    }

    /// The tables of unknown family that are not empty.
    fn orphans(&self) -> Vec<Kin> {
        let mut all: Vec<Kin> = Vec::new();
        for table in self.found.listed.values() {
            let empty = table.entries == 0 && table.facts.num_range_deletions == 0;
            if table.family.is_some() || empty {
                continue;
            }
            let mut kin = Kin {
                tables: BTreeSet::from([table.number()]),
                blob_files: table.files.keys().copied().collect(),
                foreign: table.foreign,
            };
            let related: Vec<_> = all
                .extract_if(.., |other| !other.blob_files.is_disjoint(&kin.blob_files))
                .collect();
            for other in related {
                kin.tables.extend(other.tables);
                kin.blob_files.extend(other.blob_files);
                kin.foreign &= other.foreign;
            }
            all.push(kin);
        }
        all
    }

    /// The family of any table that refers to one of the blob files.
    fn family_of(&self, kin: &Kin) -> Option<ColumnFamilyId> {
        let refers = |table: &&Table| table.files.keys().any(|file| kin.blob_files.contains(file));
        let mut referring = self.found.listed.values().filter(refers);
        referring.find_map(|table| table.family)
    }

    /// Whether the default family is the only one known.
    fn default_is_alone(&self) -> Result<bool> {
        let known = self.families.keys().copied();
        let of_tables = self.found.listed.values().filter_map(|table| table.family);
        let mut all = known
            .chain(of_tables)
            .chain([self.from.hint.record.max_column_family]);
        if all.any(|id| id != ColumnFamilyId::DEFAULT) {
            return Ok(false);
        }
        Ok(self.names_in_options()?.is_empty())
    }

    /// The names of families that only the newest OPTIONS has.
    fn names_in_options(&self) -> Result<Vec<String>> {
        let options = self.newest_options()?.unwrap_or_default();
        let names = options.sections().iter().filter(|s| s.kind == CF_OPTIONS);
        let unknown = names.filter(|s| self.families.values().all(|f| f.name != s.name));
        Ok(unknown.map(|section| section.name.clone()).collect())
    }

    /// The newest OPTIONS that is understood.
    ///
    /// # Errors
    /// Failures to read.
    pub(super) fn newest_options(&self) -> Result<Option<OptionsFile>> {
        let newest = self.from.files.iter().rev();
        for file in newest.filter(|f| matches!(f, FileKind::Options(_))) {
            let content = read_file(&*self.from.vfs, &file.path(self.from.dir))?;
            if let Ok(options) = OptionsFile::parse(&content) {
                return Ok(Some(options));
            }
        }
        Ok(None)
    }

    /// Creates a family for them, with an id that no table and no MANIFEST has; `None` if no id is
    /// free.
    fn found_family(&mut self, kin: &Kin) -> Option<ColumnFamilyId> {
        let mut own = self.found.listed.values();
        let comparator = own.find(|table| kin.tables.contains(&table.number()))?;
        let comparator = comparator.comparator.clone();
        let of_tables = self.found.listed.values().filter_map(|table| table.family);
        let known = self.families.keys().copied().chain(of_tables);
        let newest = known
            .chain([self.from.hint.record.max_column_family])
            .max()?;
        let mut free = (newest.0..=u32::MAX).skip(1).map(ColumnFamilyId);
        let taken = |name: &String| self.families.values().any(|family| family.name == *name);
        let (id, name) = free.find_map(|id| {
            let name = Family::name_of_unknown(id);
            (!taken(&name)).then_some((id, name))
        })?;
        let tables = kin
            .tables
            .iter()
            .map(|number| FileKind::Table(*number).name());
        let tables = tables.collect::<Vec<_>>().join(", ");
        self.report.notes.push(format!(
            "the column family of these tables is unknown, so they get one of their own, '{name}': \
             {tables}"
        ));
        let family = Family {
            name,
            comparator,
            log_number: FileNumber(0),
            founded: true,
        };
        self.families.insert(id, family);
        Some(id)
    }
}
