//! Whether compactions of a family are due, so that it is evaluated only after a change.

use crate::compaction::choosing::levels::Circumstances;

/// Whether compactions of a family are due.
#[derive(Default)]
pub(crate) struct DueCompactions {
    /// The circumstances under which none was due; `None` once something ended or changed that
    /// could make one due.
    circumstances: Option<Circumstances>,
    /// When one is due because of the age of a table, in seconds since 1970, if that is to come.
    aged_at: Option<u64>,
    /// Before this time none is made for the age of a table: the compaction filter has failed.
    not_before: u64,
}

impl DueCompactions {
    /// Whether a compaction may be due, so that the family must be evaluated. `may_have_room` says
    /// whether there may be room for one that lacked it.
    pub(crate) fn may_be_some(
        &self,
        circumstances: Circumstances,
        now: u64,
        may_have_room: bool,
    ) -> bool {
        may_have_room
            || self.circumstances != Some(circumstances)
            || self.aged_at.is_some_and(|at| at <= now)
    }

    /// None is due under these circumstances, until the time `aged_at`.
    pub(crate) fn none_under(&mut self, circumstances: Circumstances, aged_at: Option<u64>) {
        self.circumstances = Some(circumstances);
        self.aged_at = aged_at.map(|at| at.max(self.not_before));
    }

    /// Something has ended or changed that could make one due.
    pub(super) fn may_have_changed(&mut self) {
        self.circumstances = None;
    }

    /// One is due.
    pub(crate) fn is_some(&mut self) {
        self.circumstances = None;
    }

    /// Whether one may be made for the age of a table.
    pub(crate) fn may_revisit(&self, now: u64) -> bool {
        now >= self.not_before
    }

    /// The compaction filter has failed in one that was made for the age of a table.
    pub(crate) fn revisit_failed(&mut self, not_before: u64) {
        self.not_before = not_before;
    }

    /// When one is due because of the age of a table.
    pub(crate) fn aged_at(&self) -> Option<u64> {
        self.aged_at
    }
}
