//! Installing the output of a job: the one way in which the edits of jobs become durable and
//! readers see the versions they make.

use std::sync::Arc;

use crate::db::core::family::{Family, dropped};
use crate::db::core::shared::Shared;
use crate::db::core::state::FamilyState;
use crate::error::Result;
use crate::format::ColumnFamilyId;
use crate::format::file_name::FileKind;
use crate::version::VersionSet;
use crate::version::edit::VersionEdit;

impl Shared {
    /// Makes the edits that `prepare` returns durable, then shows readers the new versions of all
    /// edited families, all at once for threads that have the state lock.
    ///
    /// `prepare` runs with the version set locked: no other edit comes between it and its own. It
    /// returns `None` if there is nothing to install. In that case, and if one of `families` was
    /// dropped, the files in `outputs` are deleted. `change` runs under the state lock for each
    /// edited family, which has its new version; it changes the other state that goes with that.
    ///
    /// Returns the value that `prepare` returned beside the edits. The caller evaluates the
    /// families ([`Shared::update_stalls`]) when its job has ended.
    ///
    /// # Errors
    /// The error of a dropped family, if one was dropped: nothing has changed. After another error
    /// it is unknown whether the edits are in the MANIFEST, so writes must stop
    /// ([`Shared::job_failed`]).
    ///
    /// Cost: one write and one sync of the MANIFEST.
    pub(super) fn install<T>(
        &self,
        families: &[&Family],
        outputs: &[FileKind],
        prepare: impl FnOnce(&VersionSet) -> Option<(Vec<VersionEdit>, T)>,
        mut change: impl FnMut(&mut FamilyState, &mut T),
    ) -> Result<Option<T>> {
        let mut versions = self.versions.lock();
        let overlooked = mutant!(installed_in_a_dropped_family);
        let gone = families.iter().find(|f| versions.family(f.id).is_none());
        if let Some(gone) = gone.filter(|_| !overlooked) {
            self.files.env.discard(outputs);
            return Err(dropped(&gone.name));
        }
        let Some((edits, mut prepared)) = prepare(&versions) else {
            self.files.env.discard(outputs);
            return Ok(None);
        };
        let edited: Vec<ColumnFamilyId> = edits.iter().map(|edit| edit.column_family).collect();
        gate!("install: edit made");
        versions.apply(edits)?;
        invariant!(
            versions.manifest_number().is_some(),
            "an edit is durable, and there is no MANIFEST"
        );
        gate!("install: edit durable");
        // The version set stays locked, so that no older version follows a newer one.
        let mut replaced = Vec::new();
        let mut state = self.state.lock();
        for id in edited {
            if let (Some(family), Some(version)) =
                (state.families.get_mut(&id), versions.current(id))
            {
                invariant!(
                    version.column_family == id && !Arc::ptr_eq(&version, &family.version),
                    "family {id} gets a version of family {}, or none that is new",
                    version.column_family
                );
                if mutant!(memtables_gone_before_their_table) {
                    change(family, &mut prepared);
                    replaced.push(family.publish());
                    gate!("install: between memtables and version");
                    family.version = version;
                } else {
                    family.version = version;
                    gate!("install: between memtables and version");
                    change(family, &mut prepared);
                }
                family.has_changed();
                replaced.push(family.publish());
                invariant!(
                    versions
                        .current(id)
                        .is_some_and(|current| Arc::ptr_eq(&current, &family.version)),
                    "readers of family {id} do not have its current version"
                );
            }
        }
        drop(state);
        drop(versions);
        // Freeing memtables and older versions may take a while.
        drop(replaced);
        Ok(Some(prepared))
    }
}
