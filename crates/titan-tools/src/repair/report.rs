//! The report of a repair.

use std::fmt;

use serde::{Serialize, Serializer};

/// Report on a repair: files and entries that it kept, salvaged and lost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RepairReport {
    /// The column families of the repaired database.
    pub families: Vec<String>,
    /// Tables that were not rewritten.
    pub kept_tables: usize,
    /// Blob files that were not rewritten.
    pub kept_blob_files: usize,
    /// Bytes of both.
    pub kept_bytes: u64,
    /// Damaged tables, and tables with values in damaged blob files; what could be read was
    /// rewritten.
    pub salvaged: Vec<Salvaged>,
    /// Tables merged into new ones because their order was unknown.
    pub merged_tables: usize,
    /// Operations replayed from WAL files.
    pub replayed: u64,
    /// Entries of the repaired database, range deletions not counted.
    pub entries: u64,
    /// Losses. Empty if the repaired database has everything.
    pub lost: Vec<Loss>,
    /// Facts worth knowing that are no loss.
    pub notes: Vec<String>,
}

/// A table of which what could be read was rewritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Salvaged {
    /// Its name.
    pub file: String,
    /// The column family.
    pub family: String,
    /// Entries that were read.
    pub entries: u64,
    /// Why it could not be kept.
    pub reason: String,
}

/// Lost data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The name of the file it was in.
    pub file: String,
    /// Where in the file, in bytes; `None` stands for the whole file.
    pub offset: Option<u64>,
    /// Bytes concerned.
    pub size: Option<u64>,
    /// The column family; `None` if it is unknown and may be any.
    pub family: Option<String>,
    /// The first key that may be lost; in JSON with escapes for bytes that are not ASCII.
    #[serde(serialize_with = "key_text")]
    pub from: Option<Vec<u8>>,
    /// The last key that may be lost.
    #[serde(serialize_with = "key_text")]
    pub to: Option<Vec<u8>>,
    /// The first and the last sequence number that may be lost.
    pub sequences: Option<(u64, u64)>,
    /// Number of lost entries, if known.
    pub entries: Option<u64>,
    /// Description of the loss and its cause.
    pub reason: String,
}

impl Loss {
    /// A loss of unknown keys, somewhere in a file.
    pub(super) fn of_file(file: &str, reason: impl Into<String>) -> Self {
        Loss {
            file: file.to_owned(),
            reason: reason.into(),
            ..Loss::default()
        }
    }

    /// A loss of what only the MANIFEST knew; `what` of it is lost.
    pub(super) fn of_manifest(file: &str, what: &str) -> Self {
        let reason = "which tables were in use is inferred from those that are here: a table that \
                      is gone is not missed, and keys that had been deleted may be back";
        Self::of_file(file, format!("{what}: {reason}"))
    }
}

fn key_text<S: Serializer>(key: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = key.as_ref().map(|key| key.escape_ascii().to_string());
    text.serialize(serializer)
}

/// `000012.sst at 4096, 1024 bytes: family default: keys 'a' to 'c': 12 entries: reason`.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(offset) = self.offset {
            write!(f, " at {offset}")?;
        }
        if let Some(size) = self.size {
            write!(f, ", {size} bytes")?;
        }
        if let Some(family) = &self.family {
            write!(f, ": family {family}")?;
        }
        match (&self.from, &self.to) {
            (Some(from), Some(to)) if from == to => write!(f, ": key '{}'", from.escape_ascii())?,
            (Some(from), Some(to)) => {
                let (from, to) = (from.escape_ascii(), to.escape_ascii());
                write!(f, ": keys '{from}' to '{to}'")?;
            }
            (Some(from), None) => write!(f, ": keys from '{}'", from.escape_ascii())?,
            (None, Some(to)) => write!(f, ": keys up to '{}'", to.escape_ascii())?,
            (None, None) => {}
        }
        match self.sequences {
            Some((first, u64::MAX)) => write!(f, ": sequence numbers from {first}")?,
            Some((first, last)) => write!(f, ": sequence numbers {first} to {last}")?,
            None => {}
        }
        match self.entries {
            Some(1) => f.write_str(": 1 entry")?,
            Some(n) => write!(f, ": {n} entries")?,
            None => {}
        }
        write!(f, ": {}", self.reason)
    }
}
