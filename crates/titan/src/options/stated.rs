//! Which options an opening states.

use std::fmt;

use crate::error::{Error, Result};

/// Which fields of [`ColumnFamilyOptions`](super::ColumnFamilyOptions) are stated, beyond those
/// that differ from their default: see [`stated`](super::ColumnFamilyOptions::stated).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Stated {
    all: bool,
    names: Vec<&'static str>,
}

/// Leaves out how a value came about: options of the same values look the same.
impl fmt::Debug for Stated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stated").finish_non_exhaustive()
    }
}

impl Stated {
    /// Every field.
    pub fn all() -> Self {
        Stated {
            all: true,
            names: Vec::new(),
        }
    }

    /// These fields, by their names: `Stated::fields(&["compression"])`.
    pub fn fields(names: &[&'static str]) -> Self {
        Stated {
            all: false,
            names: names.to_vec(),
        }
    }

    /// The same fields, and these.
    pub fn and(mut self, names: &[&'static str]) -> Self {
        self.names.extend_from_slice(names);
        self
    }

    /// Whether the field of this name is stated, with any value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.all || self.names.contains(&name)
    }

    /// Whether the field is named by itself.
    pub(super) fn names(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    /// These fields.
    pub(super) fn these(names: impl Iterator<Item = &'static str>) -> Self {
        Stated {
            all: false,
            names: names.collect(),
        }
    }

    /// Fails with `InvalidOption` for a name that is not `known`.
    pub(super) fn validate(&self, known: impl Fn(&&str) -> bool) -> Result<()> {
        match self.names.iter().find(|name| !known(name)) {
            None => Ok(()),
            Some(name) => Err(Error::invalid_option(format!(
                "stated names {name}, which is no option of a column family"
            ))),
        }
    }
}
