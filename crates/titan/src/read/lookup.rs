//! Point lookups: the newest visible entry of one key.

use std::sync::Arc;

use super::SuperVersion;
use super::search::{Lookup, Place, Search};
use super::source::Source;
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::open_files::OpenFiles;
use crate::stats::perf_context;

/// Finds the value of `user_key` as of `snapshot`. Sources are searched newest first, and the first
/// entry decides. Cost: one filter probe per table whose range has the key, one block where a
/// filter says yes.
pub(crate) fn lookup(
    super_version: &SuperVersion,
    open_files: &Arc<OpenFiles>,
    user_key: &[u8],
    snapshot: SequenceNumber,
    fill_cache: bool,
) -> Result<Lookup> {
    let too_many = u64::from(mutant!(snapshot_sees_the_next_write));
    let comparator = &super_version.version.comparator;
    let mut search = Search::new(user_key, snapshot.plus(too_many), comparator, fill_cache);
    let mut place = None;
    for source in super_version.sources(open_files) {
        source.search(&mut search)?;
        if search.is_done() {
            place = Some(source.place());
            break;
        }
    }
    if place == Some(Place::Memory) {
        perf_context::add(|running| &running.memtable_hit_count, 1);
    }
    Ok(search.finish(place))
}
