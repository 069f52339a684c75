//! The versions of one family, as the MANIFEST knows it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::format::FileNumber;
use crate::format::internal_key::InternalKeyComparator;
use crate::options::SettingTexts;
use crate::version::state::version::Version;

/// A column family as the MANIFEST knows it.
pub struct FamilyVersions {
    pub name: String,
    pub comparator: InternalKeyComparator,
    /// WAL files with a smaller number have nothing that this family still needs.
    pub(crate) log_number: FileNumber,
    /// The options that the MANIFEST keeps for the next opening.
    pub(crate) settings: SettingTexts,
    pub current: Arc<Version>,
    /// The versions before `current` that are still in use, and when each was replaced.
    pub(super) older: Vec<(Weak<Version>, Duration)>,
}

impl FamilyVersions {
    pub fn new(
        name: String,
        comparator: InternalKeyComparator,
        log_number: FileNumber,
        current: Arc<Version>,
    ) -> Self {
        FamilyVersions {
            name,
            comparator,
            log_number,
            settings: SettingTexts::new(),
            current,
            older: Vec::new(),
        }
    }

    /// Every version that a reader may use, the current one first. Together they have all live
    /// tables, except those that a job is writing.
    pub(crate) fn live_versions(&self) -> Vec<Arc<Version>> {
        let older = self.older_versions().map(|(version, _)| version);
        std::iter::once(Arc::clone(&self.current))
            .chain(older)
            .collect()
    }

    /// The versions before the current one that a reader may use, and when each was replaced, by
    /// [`SystemClock::monotonic`].
    pub(crate) fn older_versions(&self) -> impl Iterator<Item = (Arc<Version>, Duration)> {
        let older = self.older.iter();
        older.filter_map(|(version, replaced)| Some((version.upgrade()?, *replaced)))
    }

    pub(super) fn replace(&mut self, version: Arc<Version>, now: Duration) {
        invariant!(
            version.column_family == self.current.column_family
                && !Arc::ptr_eq(&version, &self.current),
            "family {} gets a version of family {}, or its own again",
            self.name,
            version.column_family
        );
        self.older.retain(|(version, _)| version.strong_count() > 0);
        self.older.push((Arc::downgrade(&self.current), now));
        self.current = version;
    }
}
