//! Compactions of tables that users name.

use std::sync::Arc;

use crate::compaction::choosing::picker::pick_files;
use crate::db::core::family::Family;
use crate::db::core::shared::Shared;
use crate::error::Result;
use crate::filter::check_may_wait_for_jobs;
use crate::format::FileNumber;
use crate::version::Version;

impl Shared {
    /// See [`ColumnFamily::compact_files`](crate::ColumnFamily::compact_files).
    pub(crate) fn compact_files(
        &self,
        family: &Arc<Family>,
        files: &[FileNumber],
        output_level: usize,
    ) -> Result<()> {
        check_may_wait_for_jobs()?;
        let claim = self.claim_for_manual(family)?;
        let mut refused = None;
        let files = files.iter().copied().collect();
        let pick = |version: &Arc<Version>| {
            let picked = pick_files(version, &files, output_level);
            picked.map_err(|e| refused = Some(e)).ok()
        };
        let outcome = self.compact_one(family, pick);
        self.purge();
        drop(claim);
        outcome?;
        refused.map_or(Ok(()), Err)
    }
}
