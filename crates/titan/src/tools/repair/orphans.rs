//! Whose the tables are of which neither a MANIFEST nor the table itself says it.
//!
//! Families have keys in common: a table taken for another family's would show values that this
//! never had, and hide those it has. So only what a checksum vouches for counts. A blob file holds
//! values of one family: tables that refer to it are of one family, too. What its header says does
//! not count: it has no checksum, and files may have changed places.
//!
//! A table that was written outside of the database and ingested need not name a family. It is
//! taken for the default family's where no other one is known, as RocksDB does. One whose
//! properties are lost did name one, and that no other is known now proves nothing: OPTIONS need
//! not know families created since the last opening. It gets a family of its own, out of which
//! people can take what they know to be theirs.

use std::collections::BTreeSet;

use super::Repair;
use super::families::Family;
use super::survey::Table;
use crate::error::Result;
use crate::format::file_name::FileKind;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber};
use crate::options::file::{CF_OPTIONS, OptionsFile};
use crate::vfs::read_file;

/// Tables of one family, whichever that is: of any two, directly or by way of others, blob files
/// say so.
struct Kin {
    tables: BTreeSet<FileNumber>,
    blob_files: BTreeSet<BlobFileNumber>,
    /// Whether they were written outside of the database, where nobody knew its families.
    foreign: bool,
}

impl Repair<'_> {
    /// Decides the families of such tables. It stays open for those of which nothing can be read,
    /// and for those whose family turns out to have another order than they were read in.
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
            let own = self.tables.values_mut();
            for table in own.filter(|table| kin.tables.contains(&table.number())) {
                let read_in = table.comparator.user().name();
                let fits = |order: &InternalKeyComparator| order.user().name() == read_in;
                table.family = id.filter(|_| order.as_ref().is_none_or(fits));
            }
        }
        Ok(())
    }

    /// The tables of unknown family that hold anything.
    fn orphans(&self) -> Vec<Kin> {
        let mut all: Vec<Kin> = Vec::new();
        for table in self.tables.values() {
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

    /// The family of a table that refers to one of their blob files.
    fn family_of(&self, kin: &Kin) -> Option<ColumnFamilyId> {
        let refers = |table: &&Table| table.files.keys().any(|file| kin.blob_files.contains(file));
        let mut referring = self.tables.values().filter(refers);
        referring.find_map(|table| table.family)
    }

    /// Whether nothing knows a family but the default one.
    fn default_is_alone(&self) -> Result<bool> {
        let known = self.families.keys().copied();
        let of_tables = self.tables.values().filter_map(|table| table.family);
        let mut all = known.chain(of_tables).chain([self.hint.max_column_family]);
        if all.any(|id| id != ColumnFamilyId::DEFAULT) {
            return Ok(false);
        }
        Ok(self.names_in_options()?.is_empty())
    }

    /// The names of families that the newest OPTIONS has and nothing else does.
    fn names_in_options(&self) -> Result<Vec<String>> {
        let newest = self.files.iter().rev();
        for file in newest.filter(|f| matches!(f, FileKind::Options(_))) {
            let content = read_file(&*self.vfs, &file.path(self.dir))?;
            let Ok(options) = OptionsFile::parse(&content) else {
                continue;
            };
            let names = options.sections().iter().filter(|s| s.kind == CF_OPTIONS);
            let unknown = names.filter(|s| self.families.values().all(|f| f.name != s.name));
            return Ok(unknown.map(|section| section.name.clone()).collect());
        }
        Ok(Vec::new())
    }

    /// A family of their own, under an id that no table and no MANIFEST has; `None` if none is
    /// left.
    fn found_family(&mut self, kin: &Kin) -> Option<ColumnFamilyId> {
        let mut own = self.tables.values();
        let comparator = own.find(|table| kin.tables.contains(&table.number()))?;
        let comparator = comparator.comparator.clone();
        let of_tables = self.tables.values().filter_map(|table| table.family);
        let known = self.families.keys().copied().chain(of_tables);
        let newest = known.chain([self.hint.max_column_family]).max()?;
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
            "nothing says of which column family these are, so they get one of their own, '{name}': \
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
