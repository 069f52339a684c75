//! Tables of other programs whose pointers into blob files are not all understood.
//!
//! The MANIFEST names the oldest blob file to which a table points. A table without a pointer to
//! that file, as far as this version can see, has pointers of a form that it does not know. To this
//! version their values look like garbage, so nothing may be booked as garbage because of such a
//! table (BLOB-2).

use std::path::Path;

use super::files::TableFile;
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, FileNumber};

impl TableFile {
    /// The oldest blob file to which the table points by the MANIFEST alone: another program wrote
    /// the table, and its pointers have not been counted.
    pub(crate) fn uncounted_blob_file(&self) -> Option<BlobFileNumber> {
        match self.facts() {
            Some(_) => None,
            None => self.meta.oldest_blob_file,
        }
    }

    /// Fails unless a pointer to the blob file that [`TableFile::uncounted_blob_file`] names was
    /// found.
    ///
    /// # Errors
    /// `Unsupported`, naming the table and the blob file.
    pub(crate) fn require_pointer(&self, found: impl Fn(BlobFileNumber) -> bool) -> Result<()> {
        match self.uncounted_blob_file() {
            Some(oldest) if !found(oldest) && !mutant!(unknown_pointers_are_garbage) => {
                Err(unknown_pointers(self.number(), oldest))
            }
            _ => Ok(()),
        }
    }
}

/// The error for a table that points to a blob file in a form that this version does not know.
pub(crate) fn unknown_pointers(table: FileNumber, oldest: BlobFileNumber) -> Error {
    let text = format!(
        "the table refers to {} in a form that this version does not know: the MANIFEST names that file \
         as the oldest one, and no entry points to it. The values may not be taken for garbage; the \
         database can be opened to read only",
        FileKind::Blob(oldest).name()
    );
    let name = FileKind::Table(table).name();
    Error::unsupported(text).in_file(Path::new(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::edit::{NewFile, TableFacts};

    fn table(oldest: Option<u64>, facts: Option<TableFacts>) -> TableFile {
        let meta = NewFile {
            number: FileNumber(9),
            oldest_blob_file: oldest.map(BlobFileNumber),
            ..NewFile::default()
        };
        TableFile::new(meta, facts, &Default::default())
    }

    #[test]
    fn only_a_table_that_was_not_counted_must_have_the_pointer() {
        let found = |has: bool| move |file| has && file == BlobFileNumber(7);
        let lacking = table(Some(7), None);
        let error = lacking.require_pointer(found(false)).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
        assert_eq!(error.path().unwrap(), Path::new("000009.sst"));
        assert!(error.message().contains("000007.blob"), "{error}");
        lacking.require_pointer(found(true)).unwrap();
        assert!(table(Some(6), None).require_pointer(found(true)).is_err());
        let counted = table(Some(7), Some(TableFacts::default()));
        counted.require_pointer(found(false)).unwrap();
        table(None, None).require_pointer(found(false)).unwrap();
    }
}
