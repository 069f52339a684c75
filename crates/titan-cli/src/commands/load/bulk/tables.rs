//! Writing tables of rows that come in the order of their keys.

use std::path::PathBuf;

use titan::{Options, Result, SstFileInfo, SstFileWriter};

use super::workplace::Workplace;

/// Tables that do not overlap, the smallest keys first.
#[derive(Default)]
pub(super) struct Tables {
    current: Option<SstFileWriter>,
    finished: Vec<SstFileInfo>,
}

impl Tables {
    /// Adds a row; without a value, the deletion of its key.
    pub(super) fn add(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        options: &Options,
        place: &mut Workplace,
    ) -> Result<()> {
        let is_full =
            |table: &mut SstFileWriter| table.file_size() >= options.default.target_file_size_base;
        if let Some(full) = self.current.take_if(is_full) {
            self.finished.push(full.finish()?);
        }
        let table = match &mut self.current {
            Some(table) => table,
            none => none.insert(SstFileWriter::create(place.next_table(), options)?),
        };
        match value {
            Some(value) => table.put(key, value),
            None => table.delete(key),
        }
    }

    /// Ends the last table.
    pub(super) fn finish(mut self) -> Result<Vec<SstFileInfo>> {
        if let Some(last) = self.current.take() {
            self.finished.push(last.finish()?);
        }
        Ok(self.finished)
    }
}

/// Where tables are.
pub(super) fn paths<'a>(tables: impl IntoIterator<Item = &'a SstFileInfo>) -> Vec<PathBuf> {
    tables.into_iter().map(|table| table.path.clone()).collect()
}
