//! The deletion of all keys of a range.

use std::ffi::OsString;

use clap::builder::{OsStringValueParser, TypedValueParser};
use titan::{ColumnFamily, Db, ReadOptions, Result, WriteBatch, WriteOptions};

use crate::confirm::Consent;
use crate::keys;

/// The range of keys to delete.
#[derive(clap::Args)]
#[group(id = "range", multiple = true, conflicts_with_all = ["key", "from_file"])]
pub(super) struct Range {
    /// Delete all keys from this one on: text, or hexadecimal after 0x.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, value_parser = bound())]
    from: Option<OsString>,
    /// Delete all keys before this one.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, value_parser = bound())]
    to: Option<OsString>,
    /// Delete all keys that begin with this.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, value_parser = bound())]
    prefix: Option<OsString>,
}

/// Takes the text of a bound. An empty one is that of a variable which is not set.
fn bound() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|text| match text.is_empty() {
        false => Ok(text),
        true => Err("no key; the empty one, from which all others follow, is 0x"),
    })
}

impl Range {
    /// Deletes the keys of the range in one synced write, however many they are, if that is
    /// confirmed. The question names the first and the last key.
    ///
    /// # Errors
    /// `InvalidArgument` without consent; those of the engine.
    pub(super) fn delete(&self, db: &Db, family: &ColumnFamily, consent: &Consent) -> Result<()> {
        let mut found = family.iter(&ReadOptions {
            lower_bound: keys::parse_if_given(&self.from)?,
            upper_bound: keys::parse_if_given(&self.to)?,
            prefix: keys::parse_if_given(&self.prefix)?,
            fill_cache: false,
            prefetch_values: 0,
            ..ReadOptions::default()
        })?;
        found.seek_to_first()?;
        if !found.valid() {
            return Ok(());
        }
        let first = found.key().to_vec();
        found.seek_to_last()?;
        let last = found.key().to_vec();
        drop(found);
        consent.ask(&format!(
            "delete all keys from {} to {}",
            keys::escaped(&first),
            keys::escaped(&last)
        ))?;
        let mut batch = WriteBatch::new();
        // Its end is exclusive, in any order of the keys.
        batch.delete_range(family, &first, &last)?;
        batch.delete(family, &last)?;
        db.write(batch, &WriteOptions::synced())
    }
}
