//! The first state of a family.

use std::sync::Arc;

use super::family::Family;
use super::state::FamilyState;
use crate::dead_ranges::DeadRanges;
use crate::filter::revisit_of;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{ColumnFamilyId, Comparator, FileNumber};
use crate::memtable::Memtable;
use crate::options::{ColumnFamilyOptions, Options};
use crate::read::SuperVersion;
use crate::sync::ArcSwap;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::version::{self, Version, VersionSet};

/// Creates, in memory only, the families of `options` that the database does not have.
pub(crate) fn create_missing_families(versions: &mut VersionSet, options: &Options) {
    let existing: Vec<String> = versions
        .families()
        .values()
        .map(|f| f.name.clone())
        .collect();
    for (name, family_options) in &options.families {
        if !existing.contains(name) {
            let id = versions.next_column_family();
            let family = empty_family(id, name, family_options, FileNumber(0));
            versions.add_family_in_memory(id, family);
        }
    }
}

/// A family without files, as the version set knows it.
pub(crate) fn empty_family(
    id: ColumnFamilyId,
    name: &str,
    options: &ColumnFamilyOptions,
    log_number: FileNumber,
) -> version::FamilyVersions {
    let comparator = InternalKeyComparator::new(Arc::clone(&options.comparator));
    let current = Arc::new(Version::empty(id, comparator.clone(), options.num_levels));
    version::FamilyVersions::new(name.to_owned(), comparator, log_number, current)
}

/// The options with the comparator of the family: the recorded one, if none was given.
fn with_comparator(
    options: Arc<ColumnFamilyOptions>,
    comparator: &Arc<dyn Comparator>,
) -> Arc<ColumnFamilyOptions> {
    if options.comparator.name() == comparator.name() {
        return options;
    }
    Arc::new(ColumnFamilyOptions {
        comparator: Arc::clone(comparator),
        ..(*options).clone()
    })
}

/// The state of a family whose memtable is empty.
pub(crate) fn family_state(
    id: ColumnFamilyId,
    recovered: &version::FamilyVersions,
    options: Arc<ColumnFamilyOptions>,
    wal_number: FileNumber,
    kept: Option<&(Arc<Memtable>, FileNumber)>,
) -> FamilyState {
    let options = with_comparator(options, recovered.comparator.user());
    let empty = || {
        let memtable = Memtable::new(recovered.comparator.clone(), options.write_buffer_size);
        (memtable, wal_number)
    };
    let (memtable, memtable_log) = kept.cloned().unwrap_or_else(empty);
    let version = Arc::clone(&recovered.current);
    let super_version = SuperVersion {
        memtable: Arc::clone(&memtable),
        immutables: Vec::new(),
        version: Arc::clone(&version),
        generation: 0,
    };
    let factory = options.compaction_filter.as_deref();
    let revisit = factory.and_then(revisit_of);
    let family = Arc::new(Family {
        id,
        name: recovered.name.clone(),
        merge_operator: options.merge_operator.clone(),
        prefix_extractor: options.given_prefix_extractor(),
        options: ArcSwap::new(options),
        comparator: recovered.comparator.clone(),
        super_version: ArcSwap::from_pointee(super_version),
        dropped: AtomicBool::new(false),
        revisit,
        garbage_moment: AtomicU64::new(0),
        scans: Arc::default(),
        dead: Arc::new(DeadRanges::new(recovered.comparator.clone())),
    });
    FamilyState::new(family, memtable, memtable_log, version)
}
