//! Finds the column families and the tables of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use titan::internals::compaction::OutputFamily;
use titan::internals::format::{FileKind, InternalKeyComparator, user_key};
use titan::internals::options::{Kept, Resolved};
use titan::{ColumnFamilyId, Error, Result, SequenceNumber};

use super::family::Family;
use super::hint::HintedTable;
use super::report::Loss;
use super::state::Repair;
use super::table::Table;

impl Repair<'_> {
    /// Finds the families that the MANIFEST and tables name.
    pub(super) fn find_families(&mut self) -> Result<()> {
        self.family(ColumnFamilyId::DEFAULT, Some("default".to_owned()))?;
        for (id, hinted) in self.from.hint.families.clone() {
            let name = Some(hinted.name).filter(|name| !name.is_empty());
            self.family(id, name)?;
        }
        // Newest first: of two families with one name the older one had been dropped.
        let mut named: Vec<_> = self
            .found
            .unlisted
            .values()
            .filter_map(|table| Some((table.family?, table.family_name.clone()?)))
            .collect();
        named.sort();
        for (id, name) in named.into_iter().rev() {
            let taken = self.families.values().any(|family| family.name == name);
            if !self.families.contains_key(&id) && !self.from.hint.dropped.contains(&id) && !taken {
                self.family(id, Some(name))?;
            }
        }
        Ok(())
    }

    /// Returns the family of this id; creates it if it is unknown, under `name` or else under a
    /// name that says where it comes from.
    pub(super) fn family(&mut self, id: ColumnFamilyId, name: Option<String>) -> Result<&Family> {
        if !self.families.contains_key(&id) {
            let hinted = self.from.hint.families.get(&id);
            let log_number = hinted.map(|f| f.log_number).unwrap_or_default();
            let of_table = |tables: &BTreeMap<_, Table>| {
                let mut own = tables.values().filter(|table| table.family == Some(id));
                own.find_map(|table| Some((table.family_name.clone()?, table.comparator.clone())))
            };
            let of_table = of_table(&self.found.listed).or_else(|| of_table(&self.found.unlisted));
            let name = name.or_else(|| of_table.as_ref().map(|(name, _)| name.clone()));
            // A MANIFEST with two families of one name cannot be opened.
            let taken = |name: &String| self.families.values().any(|f| f.name == *name);
            let name = name.filter(|name| !taken(name));
            let name = name.unwrap_or_else(|| Family::name_of_unknown(id));
            if id != ColumnFamilyId::DEFAULT && hinted.is_none_or(|f| f.name != name) {
                self.report
                    .notes
                    .push(format!("column family {id} is taken for '{name}'"));
            }
            let comparator = match of_table {
                Some((_, comparator)) => comparator,
                None => self.comparator(Some(id), Some(name.clone()), None)?,
            };
            let family = Family {
                name,
                comparator,
                log_number,
                founded: false,
            };
            self.families.insert(id, family);
        }
        self.families
            .get(&id)
            .ok_or_else(|| Error::corruption(format!("column family {id} is unknown")))
    }

    /// Settings for new files of a family.
    pub(super) fn output_family(&self, id: ColumnFamilyId) -> Result<OutputFamily> {
        let family = self.families.get(&id);
        let name = family.map_or("default", |f| &f.name).to_owned();
        let resolved = self.resolved([(id, name.as_str())])?;
        Ok(OutputFamily {
            id,
            comparator: family.map_or_else(
                || InternalKeyComparator::new(Arc::clone(&self.from.options.default.comparator)),
                |f| f.comparator.clone(),
            ),
            options: Arc::new(resolved.options.family(&name).clone()),
            name,
        })
    }

    /// The options of families, as far as the database's kept options can be read.
    pub(super) fn resolved<'f>(
        &self,
        families: impl IntoIterator<Item = (ColumnFamilyId, &'f str)> + Clone,
    ) -> Result<Resolved> {
        let names = families.clone().into_iter();
        let names: Vec<_> = names.map(|(_, name)| name.to_owned()).collect();
        let (manifest, settings) = (self.from.hint.manifest, &self.from.hint.settings);
        let kept = Kept::read(&*self.from.vfs, self.from.dir, manifest, settings, families)?;
        kept.resolve(self.from.options, &names)
    }

    /// Decides whether the MANIFEST is trusted, and which tables are part of the database.
    pub(super) fn choose_tables(&mut self) -> Result<()> {
        if self.from.hint.trusted && !self.manifest_is_whole() {
            self.from.hint.trusted = false;
            self.report
                .lost
                .push(Loss::of_manifest("MANIFEST", "edits are missing"));
        }
        if self.from.hint.trusted {
            self.families
                .retain(|id, _| self.from.hint.families.contains_key(id));
            self.leave_out_unknown();
            self.report_unexplained();
        } else {
            self.found.listed.append(&mut self.found.unlisted);
        }
        self.report_missing();
        self.adopt_orphans()?;
        self.leave_out_strays();
        Ok(())
    }

    /// Reports tables that are named but missing.
    fn report_missing(&mut self) {
        for number in std::mem::take(&mut self.found.missing) {
            let Some(hinted) = self.from.hint.tables.get(&number) else {
                continue;
            };
            let family = self.families.get(&hinted.family);
            self.report.lost.push(Loss {
                family: family.map(|family| family.name.clone()),
                from: Some(user_key(&hinted.meta.smallest).to_vec()),
                to: Some(user_key(&hinted.meta.largest).to_vec()),
                sequences: Some((hinted.meta.smallest_seq.0, hinted.meta.largest_seq.0)),
                entries: hinted.facts.as_ref().map(|facts| facts.num_entries),
                size: Some(hinted.meta.size),
                ..Loss::of_file(&FileKind::Table(number).name(), "the table is gone")
            });
        }
    }

    /// Leaves out tables of families that do not exist and tables of unknown family.
    fn leave_out_strays(&mut self) {
        let known = |id| self.families.contains_key(&id);
        let strays = self
            .found
            .listed
            .extract_if(.., |_, table| !table.family.is_some_and(known));
        for (_, table) in strays {
            match table.family {
                Some(id) => self.report.notes.push(format!(
                    "{} is of column family {id}, which was dropped",
                    table.name()
                )),
                None => self.report.lost.push(Loss {
                    entries: Some(table.entries).filter(|n| *n > 0),
                    ..Loss::of_file(&table.name(), "its column family is unknown")
                }),
            }
        }
    }

    /// Discards the WAL entries of families that the trusted MANIFEST does not know: they had been
    /// dropped. If the MANIFEST does not record the largest family id it knew, that is not certain.
    fn leave_out_unknown(&mut self) {
        let families = &self.families;
        let is_unknown = |id: &ColumnFamilyId| !families.contains_key(id);
        let tables = self.placed.extract_if(.., |p| is_unknown(&p.family));
        let tables = tables.map(|placed| FileKind::Table(placed.meta.number));
        let blob_files = self.new_blob_files.extract_if(.., |(id, _)| is_unknown(id));
        let blob_files = blob_files.map(|(_, blob)| FileKind::Blob(blob.number));
        self.env
            .discard(&tables.chain(blob_files).collect::<Vec<_>>());
        for (id, newest) in self.wals.newest.iter().filter(|(id, _)| is_unknown(id)) {
            if *id > self.from.hint.record.max_column_family {
                self.report.lost.push(Loss {
                    sequences: Some((0, newest.0)),
                    ..Loss::of_file(
                        "MANIFEST",
                        format!("column family {id}, which WAL files have writes to, is unknown"),
                    )
                });
            }
        }
    }

    /// Reports damaged tables that the trusted MANIFEST does not name and whose entries nothing
    /// else has. A whole table of that kind would have shown that edits are missing; a damaged one
    /// may show it too.
    fn report_unexplained(&mut self) {
        for table in self.found.unlisted.values().filter(|t| t.damage.is_some()) {
            let Some(id) = table
                .family
                .filter(|id| !self.from.hint.dropped.contains(id))
            else {
                continue;
            };
            if table.entries == 0 || self.is_held_elsewhere(id, table) {
                continue;
            }
            let family = self.families.get(&id);
            self.report.lost.push(Loss {
                family: family.map(|family| family.name.clone()),
                size: Some(table.meta.size),
                sequences: Some((table.meta.smallest_seq.0, u64::MAX)),
                ..Loss::of_file(
                    &table.name(),
                    "it is damaged, and no edit of the MANIFEST names it: left out, though nothing \
                     else has its entries",
                )
            });
        }
    }

    /// Whether nothing contradicts that the MANIFEST has all its edits. Edits cut off after a whole
    /// one leave no trace in it. They can leave tables that only they explain, and writes to
    /// families that only they created.
    fn manifest_is_whole(&self) -> bool {
        if !self.found.listed.values().all(|table| table.as_recorded) {
            return false;
        }
        // A family is created before it is written to.
        if self
            .wals
            .newest
            .keys()
            .any(|id| self.from.hint.never_had(*id))
        {
            return false;
        }
        let of_use = |table: &&Table| table.damage.is_none() && table.entries > 0;
        let explained = self.found.unlisted.values().filter(of_use).all(|table| {
            let Some(id) = table.family else {
                return true;
            };
            // Its origin may have been lost with the missing tables.
            self.from.hint.dropped.contains(&id)
                || (self.found.missing.is_empty() && self.is_held_elsewhere(id, table))
        });
        explained && self.hint_levels_are_sorted() && self.replayed_is_newest()
    }

    /// Whether the WAL entries are newer than the entries of the tables, above which they will be
    /// placed. Tables without facts may have been ingested since.
    fn replayed_is_newest(&self) -> bool {
        let mut newest: BTreeMap<ColumnFamilyId, SequenceNumber> = BTreeMap::new();
        let recorded = self.from.hint.tables.values();
        for table in recorded.filter(|table| table.facts.is_some()) {
            let newest = newest.entry(table.family).or_default();
            *newest = table.meta.largest_seq.max(*newest);
        }
        self.placed.iter().all(|replayed| {
            let newest = newest.entry(replayed.family).or_default();
            let before = std::mem::replace(newest, replayed.meta.largest_seq.max(*newest));
            replayed.meta.smallest_seq > before
        })
    }

    /// Whether all entries of a table that no edit names are in tables that edits name, or in WAL
    /// files: then a job wrote it and did not finish.
    fn is_held_elsewhere(&self, id: ColumnFamilyId, table: &Table) -> bool {
        // A family is flushed in order: its tables have everything up to their newest entry.
        let tables = self
            .from
            .hint
            .tables
            .values()
            .filter(|table| table.family == id);
        let flushed = tables.map(|table| table.meta.largest_seq).max();
        let flushed = flushed.unwrap_or_default();
        if table.meta.largest_seq <= flushed {
            return true;
        }
        let unflushed = table.meta.smallest_seq.max(flushed.plus(1));
        let last = self.wals.newest.get(&id).copied().unwrap_or_default();
        !self.wals.damaged
            && self.wals.first.is_some_and(|first| first <= unflushed)
            && table.meta.largest_seq <= last
    }

    /// Whether the tables of each sorted level do not overlap.
    fn hint_levels_are_sorted(&self) -> bool {
        let sorted = |a: &HintedTable, b: &HintedTable| {
            let Some(family) = self.families.get(&a.family) else {
                return true;
            };
            family
                .comparator
                .compare(&a.meta.largest, &b.meta.smallest)
                .is_lt()
        };
        self.families.iter().all(|(id, family)| {
            let mut tables: Vec<_> = self.from.hint.tables.values().collect();
            tables.retain(|t| t.family == *id && t.level > 0);
            tables.sort_by(|a, b| {
                let smallest = family
                    .comparator
                    .compare(&a.meta.smallest, &b.meta.smallest);
                a.level.cmp(&b.level).then(smallest)
            });
            tables.windows(2).all(|pair| match pair {
                [a, b] => a.level != b.level || sorted(a, b),
                _ => true,
            })
        })
    }
}
