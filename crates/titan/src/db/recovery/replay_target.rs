//! Where a replay of WAL files puts the operations of one family: in a memtable, and in a table
//! whenever that is full. For opening a database and for repairing one.

use std::sync::Arc;

use crate::compaction::building::job_env::{JobEnv, OutputFamily};
use crate::compaction::building::job_output::JobOutput;
use crate::compaction::building::shadows::OlderTables;
use crate::db::jobs::survivors::write_memtables;
use crate::error::Result;
use crate::format::FileNumber;
use crate::memtable::Memtable;

/// A family that a replay fills.
pub struct ReplayTarget {
    pub(crate) family: OutputFamily,
    /// Older WAL files have nothing that is not in the family's tables.
    pub log_number: FileNumber,
    pub memtable: Arc<Memtable>,
}

impl ReplayTarget {
    pub fn new(family: OutputFamily, log_number: FileNumber) -> Self {
        ReplayTarget {
            memtable: empty_memtable(&family),
            family,
            log_number,
        }
    }

    /// Writes the content of the memtable to a table and its blob files, all of it durable; `None`
    /// if it is empty. It may shadow entries of `older` tables.
    pub fn write_out(
        &mut self,
        env: &JobEnv,
        older: Option<OlderTables<'_>>,
    ) -> Result<Option<JobOutput>> {
        if self.memtable.is_empty() {
            return Ok(None);
        }
        let full = std::mem::replace(&mut self.memtable, empty_memtable(&self.family));
        let family = self.family.clone();
        write_memtables(&[full], env, family, Vec::new(), older, None).map(Some)
    }
}

fn empty_memtable(family: &OutputFamily) -> Arc<Memtable> {
    Memtable::new(family.comparator.clone(), family.options.write_buffer_size)
}
