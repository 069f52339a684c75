//! The names of families that were dropped, for errors.

use std::sync::{Arc, Weak};

use super::family::{Family, dropped};
use crate::error::Error;
use crate::format::ColumnFamilyId;
use crate::number_map::NumberMap;
use crate::sync::Mutex;

/// The families that were dropped since the database was opened and that something still has, such
/// as a handle of the user. A batch names a family by its number alone.
#[derive(Default)]
pub(crate) struct DroppedFamilies(Mutex<NumberMap<ColumnFamilyId, Weak<Family>>>);

impl DroppedFamilies {
    /// A family is about to be dropped.
    pub(crate) fn add(&self, family: &Arc<Family>) {
        let mut families = self.0.lock();
        families.retain(|_, family| family.strong_count() > 0);
        families.insert(family.id, Arc::downgrade(family));
    }

    /// The error for a number that no family of the database has.
    pub(super) fn error(&self, id: ColumnFamilyId) -> Error {
        let family = self.0.lock().get(&id).and_then(Weak::upgrade);
        match family {
            Some(family) => dropped(&family.name),
            None => Error::invalid_argument(format!(
                "column family {id} does not exist, or was dropped"
            )),
        }
    }
}
