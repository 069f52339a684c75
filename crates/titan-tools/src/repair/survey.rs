//! Reads every table, whole or not: its contents, its references, its damage.

use std::sync::Arc;

use titan::internals::block_cache::BlockCache;
use titan::internals::format::{FileKind, InternalKeyComparator};
use titan::internals::table::{TableIdentity, TableProperties, TableReader, TableReaderOptions};
use titan::internals::version::{NewFile, choose_comparator};
use titan::vfs::Access;
use titan::{ColumnFamilyId, FileNumber, Result, SequenceNumber};

use super::hint::HintedTable;
use super::state::Repair;
use super::table::Table;
use super::walk::Walk;
use crate::forensics::salvage::{LostPart, Salvage};

impl Repair<'_> {
    /// Reads a table of the database; `None` if it does not exist.
    ///
    /// # Errors
    /// Failures to read; features and comparators that are not supported. Damage is no error.
    pub(super) fn survey(
        &mut self,
        number: FileNumber,
        hinted: Option<&HintedTable>,
    ) -> Result<Option<Table>> {
        let kind = FileKind::Table(number);
        let path = kind.path(self.from.dir);
        let file = match self.from.vfs.open(&path, Access::Sequential) {
            Ok(file) => file,
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(e),
        };
        let size = file.size()?;
        let mut salvage = self.salvage(number, hinted)?;
        let displaced = hinted.is_some_and(|hinted| is_another(&salvage, &hinted.meta));
        let hinted = hinted.filter(|_| !displaced);
        if hinted.is_none() && self.is_unnumbered(number, salvage.properties()) {
            // It is read with its number.
            salvage = self.salvage(number, None)?;
        }
        let properties = salvage.properties();
        let comparator = self.comparator_of(hinted, properties)?;
        let mut walk = Walk::new(&comparator, hinted.map(|hinted| &hinted.meta));
        let options = TableReaderOptions {
            // The identity was checked above.
            identity: TableIdentity {
                number,
                size: hinted.map_or(size, |hinted| hinted.meta.size),
                largest_seq: self.largest_seq(number, hinted),
                unique_id: None,
            },
            comparator: comparator.clone(),
            block_cache: Arc::new(BlockCache::new(0)),
        };
        let opened = TableReader::open(file, &path, options);
        walk.read(opened, &salvage).map_err(|e| e.in_file(&path))?;
        self.progress.add(kind, size);
        let of_level_db = salvage.is_of_level_db().then_some(ColumnFamilyId::DEFAULT);
        let id = properties.and_then(|p| p.column_family_id).or(of_level_db);
        let mut table = walk.table(number, size, salvage.range_tombstones());
        table.meta.unique_id = properties.and_then(TableProperties::unique_id);
        table.family_name = properties.and_then(|p| p.column_family_name());
        table.db_id = properties.and_then(|p| p.db_id());
        table.family = id;
        table.foreign = properties.is_some() && id.is_none();
        if let Some(properties) = properties {
            // Damaged reports are not worth a table.
            table.facts.collected = properties.collected().unwrap_or_default();
        }
        table.as_recorded &= !displaced;
        // If the bounds do not match, they are another table's: then only the file itself counts.
        if let Some(hinted) = hinted.filter(|_| table.as_recorded) {
            table.require_pointers(hinted)?;
            table.take_over(hinted);
        }
        Ok(Some(table))
    }

    /// Opens a table, however damaged it is.
    pub(super) fn salvage(
        &self,
        number: FileNumber,
        hinted: Option<&HintedTable>,
    ) -> Result<Salvage> {
        let path = FileKind::Table(number).path(self.from.dir);
        let file = self.from.vfs.open(&path, Access::Sequential)?;
        let largest_seq = self.largest_seq(number, hinted);
        Salvage::open(
            file,
            &path,
            &|properties| self.comparator_of(hinted, properties),
            largest_seq,
        )
    }

    /// Whether a table was ingested, and only a MANIFEST had its sequence number. Then it gets one
    /// after those of all tables with smaller numbers: their entries are older. Its own is no
    /// smaller, so it hides nothing newer.
    fn is_unnumbered(&mut self, number: FileNumber, properties: Option<&TableProperties>) -> bool {
        if !properties.is_some_and(TableProperties::lacks_sequence_number) {
            return false;
        }
        let sequence = self.found.newest.plus(1);
        self.found.ingested.insert(number, sequence);
        self.report.notes.push(format!(
            "{} was ingested, and only a MANIFEST had its place among the writes: it counts as \
             newer than the tables before it, and as older than other writes",
            FileKind::Table(number).name()
        ));
        true
    }

    /// The largest sequence number of a table, if more is known of it than the table says.
    fn largest_seq(
        &self,
        number: FileNumber,
        hinted: Option<&HintedTable>,
    ) -> Option<SequenceNumber> {
        let hinted = hinted.map(|hinted| hinted.meta.largest_seq);
        hinted.or_else(|| self.found.ingested.get(&number).copied())
    }

    /// The order of a table's keys; its properties may be lost.
    fn comparator_of(
        &self,
        hinted: Option<&HintedTable>,
        properties: Option<&TableProperties>,
    ) -> Result<InternalKeyComparator> {
        let id = properties.and_then(|p| p.column_family_id);
        let name = properties.and_then(|p| p.column_family_name());
        let recorded = properties.and_then(|p| p.comparator.as_deref());
        self.comparator(hinted.map(|h| h.family).or(id), name, recorded)
    }

    /// The order of a family's keys: from a MANIFEST, else from the table, else from the options.
    pub(super) fn comparator(
        &self,
        id: Option<ColumnFamilyId>,
        name: Option<String>,
        recorded: Option<&str>,
    ) -> Result<InternalKeyComparator> {
        let hinted = id.and_then(|id| self.from.hint.families.get(&id));
        let name = hinted
            .map(|family| family.name.clone())
            .or(name)
            .unwrap_or_else(|| "default".to_owned());
        let given = &self.from.options.family(&name).comparator;
        let recorded = hinted.and_then(|f| f.comparator.as_deref()).or(recorded);
        let user = match recorded {
            Some(recorded) => choose_comparator(&name, recorded, self.from.options)?,
            None => Arc::clone(given),
        };
        Ok(InternalKeyComparator::new(user))
    }
}

/// Whether the file is a different table than the one in the MANIFEST, and not just damaged.
fn is_another(salvage: &Salvage, meta: &NewFile) -> bool {
    let found = salvage.properties().and_then(TableProperties::unique_id);
    meta.unique_id.is_some() && found.is_some() && found != meta.unique_id
}

/// The key range of a lost part of a table: from the index, or else the range of the whole table.
pub(super) fn lost_keys(
    part: &LostPart,
    meta: Option<&NewFile>,
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let user_key = |ikey: &Vec<u8>| titan::internals::format::user_key(ikey).to_vec();
    (
        part.from.clone().or(meta.map(|m| user_key(&m.smallest))),
        part.to.clone().or(meta.map(|m| user_key(&m.largest))),
    )
}
