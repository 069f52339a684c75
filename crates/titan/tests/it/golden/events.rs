//! Notifications of listeners, as lines of text.

use std::sync::Arc;

use parking_lot::Mutex;
use titan::{
    ColumnFamilyId, CompactionEvent, Error, EventListener, FlushEvent, GarbageCollectionEvent,
    StallEvent,
};

/// Collects events until they are taken.
#[derive(Clone, Default)]
pub(super) struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    /// The events since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }

    fn note(&self, event: String) {
        self.0.lock().push(format!("event: {event}"));
    }
}

impl EventListener for Events {
    fn flush_finished(&self, event: &FlushEvent) {
        let table = event
            .table
            .map_or("no table".to_owned(), |n| format!("table {n}"));
        self.note(format!(
            "flush of family {}: {table} of {} bytes, blob files {:?} of {} bytes",
            event.column_family,
            event.table_bytes,
            event.blob_files.iter().map(|n| n.0).collect::<Vec<_>>(),
            event.blob_bytes
        ));
    }

    fn compaction_finished(&self, event: &CompactionEvent) {
        let inputs: Vec<_> = event
            .inputs
            .iter()
            .map(|(level, n)| (*level, n.0))
            .collect();
        self.note(format!(
            "compaction of family {}: (level, table) {inputs:?} to level {}: {:?}; {} bytes read, {} written",
            event.column_family,
            event.output_level,
            event.outputs.iter().map(|n| n.0).collect::<Vec<_>>(),
            event.bytes_read,
            event.bytes_written
        ));
    }

    fn garbage_collected(&self, event: &GarbageCollectionEvent) {
        self.note(format!(
            "collection of family {}: blob files {:?} to {}; {} bytes read, {} written",
            event.column_family,
            event.inputs.iter().map(|n| n.0).collect::<Vec<_>>(),
            event.output,
            event.bytes_read,
            event.bytes_written
        ));
    }

    fn stall_changed(&self, column_family: ColumnFamilyId, event: StallEvent) {
        self.note(format!("writes to family {column_family} {event}"));
    }

    fn writes_stopped(&self, error: &Error) {
        self.note(format!("writes stopped: {error}"));
    }
}
