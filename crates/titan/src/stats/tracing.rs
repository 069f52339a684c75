//! Events for the crate `tracing`, with the target `titan`.

use tracing::{error, info, warn};

use super::{
    CompactionBeginEvent, CompactionEvent, EventListener, FlushBeginEvent, FlushEvent,
    GarbageCollectionBeginEvent, GarbageCollectionEvent, HolePunchEvent, SlowOperationEvent,
    StallEvent, WalDamageEvent,
};
use crate::error::Error;
use crate::format::ColumnFamilyId;

/// Passes the events of a database on.
pub(super) struct TracingListener;

impl EventListener for TracingListener {
    fn name(&self) -> &str {
        "tracing"
    }

    fn flush_begun(&self, event: &FlushBeginEvent) {
        let FlushBeginEvent {
            column_family,
            memtables,
            entries,
        } = event;
        info!(target: "titan", family = column_family.0, memtables, entries, "flush begun");
    }

    fn flush_finished(&self, event: &FlushEvent) {
        info!(
            target: "titan",
            family = event.column_family.0,
            table_bytes = event.table_bytes,
            blob_bytes = event.blob_bytes,
            "flush finished"
        );
    }

    fn compaction_begun(&self, event: &CompactionBeginEvent) {
        info!(
            target: "titan",
            family = event.column_family.0,
            inputs = event.inputs.len(),
            output_level = event.output_level,
            manual = event.is_manual,
            "compaction begun"
        );
    }

    fn compaction_finished(&self, event: &CompactionEvent) {
        info!(
            target: "titan",
            family = event.column_family.0,
            inputs = event.inputs.len(),
            output_level = event.output_level,
            outputs = event.outputs.len(),
            bytes_read = event.bytes_read,
            bytes_written = event.bytes_written,
            "compaction finished"
        );
    }

    fn garbage_collection_begun(&self, event: &GarbageCollectionBeginEvent) {
        info!(
            target: "titan",
            family = event.column_family.0,
            inputs = event.inputs.len(),
            manual = event.is_manual,
            "collection begun"
        );
    }

    fn garbage_collected(&self, event: &GarbageCollectionEvent) {
        info!(
            target: "titan",
            family = event.column_family.0,
            inputs = event.inputs.len(),
            bytes_read = event.bytes_read,
            bytes_written = event.bytes_written,
            "collection finished"
        );
    }

    fn holes_punched(&self, event: &HolePunchEvent) {
        info!(
            target: "titan",
            family = event.column_family.0,
            holes = event.holes,
            bytes = event.bytes,
            "holes punched"
        );
    }

    fn hole_punching_failed(&self, column_family: ColumnFamilyId, error: &Error) {
        warn!(target: "titan", family = column_family.0, %error, "holes cannot be punched");
    }

    fn garbage_collection_failed(&self, error: &Error) {
        warn!(target: "titan", %error, "collection failed");
    }

    fn stall_changed(&self, column_family: ColumnFamilyId, event: StallEvent) {
        let family = column_family.0;
        match event {
            StallEvent::Normal => info!(target: "titan", family, "writes {event}"),
            _ => warn!(target: "titan", family, "writes {event}"),
        }
    }

    fn slow_operation(&self, event: &SlowOperationEvent) {
        let took = event.took;
        warn!(target: "titan", operation = event.operation, ?took, "slow operation");
    }

    fn writes_stopped(&self, error: &Error) {
        error!(target: "titan", %error, "writes are refused");
    }

    fn job_lacks_room(&self, error: &Error) {
        warn!(target: "titan", %error, "a job waits for room on the device");
    }

    fn job_postponed(&self, error: &Error) {
        warn!(target: "titan", %error, "a job waits for a file descriptor");
    }

    fn compaction_filter_failed(&self, error: &Error) {
        warn!(target: "titan", %error, "a compaction filter failed");
    }

    fn table_properties_collector_failed(&self, error: &Error) {
        warn!(target: "titan", %error, "a collector of table properties failed");
    }

    fn listener_panicked(&self, error: &Error) {
        warn!(target: "titan", %error, "a listener panicked");
    }

    fn wal_damaged(&self, event: &WalDamageEvent) {
        warn!(target: "titan", damage = %event, "the WAL is damaged");
    }

    fn deletion_failed(&self, error: &Error) {
        warn!(target: "titan", %error, "a file could not be deleted");
    }

    fn commit_hook_poisoned(&self) {
        error!(target: "titan", "the commit hook panicked");
    }
}
