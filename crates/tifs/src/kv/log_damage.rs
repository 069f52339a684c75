//! Damage in the log of a store, as its opening found it.

use std::sync::Arc;

use parking_lot::Mutex;
use titan::{DbOptions, EventListener, WalDamageEvent};

/// Collects reports of damage from the engine.
#[derive(Default)]
pub(super) struct LogDamage(Mutex<Option<WalDamageEvent>>);

impl LogDamage {
    /// Listens to the next opening with these options.
    pub(super) fn listen(options: &mut DbOptions) -> Arc<LogDamage> {
        let heard = Arc::<LogDamage>::default();
        options.listeners.push(Arc::clone(&heard) as _);
        heard
    }

    /// The reported damage.
    pub(super) fn get(&self) -> Option<WalDamageEvent> {
        self.0.lock().clone()
    }
}

impl EventListener for LogDamage {
    fn wal_damaged(&self, event: &WalDamageEvent) {
        *self.0.lock() = Some(event.clone());
    }
}
