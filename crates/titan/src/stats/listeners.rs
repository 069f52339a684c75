//! Notifying listeners.

use std::sync::Arc;

use super::{EventListener, Statistics, add};
use crate::error::{Error, Result};
use crate::panics::{contain, name_of};

/// All listeners of a database.
#[derive(Clone, Default)]
pub(crate) struct Listeners {
    listeners: Vec<Arc<dyn EventListener>>,
    statistics: Arc<Statistics>,
}

/// Notifies listeners: `notify!(listeners, flush_finished(&event))`.
macro_rules! notify {
    ($listeners:expr, $callback:ident($($argument:expr),*)) => {
        $listeners.call(stringify!($callback), |listener| listener.$callback($($argument),*))
    };
}
pub(crate) use notify;

impl Listeners {
    /// `statistics` count the panics of listeners.
    pub(crate) fn new(listeners: Vec<Arc<dyn EventListener>>, statistics: Arc<Statistics>) -> Self {
        #[cfg(feature = "tracing")]
        let listeners = {
            let mut listeners = listeners;
            listeners.push(Arc::new(super::tracing::TracingListener));
            listeners
        };
        Listeners {
            listeners,
            statistics,
        }
    }

    /// Tells them of slow operations from now on. The statistics do not keep themselves alive by
    /// it.
    pub(crate) fn hear_of_slow_operations(&self) {
        let (listeners, statistics) = (self.listeners.clone(), Arc::downgrade(&self.statistics));
        self.statistics.detail().on_slow(Box::new(move |event| {
            if let Some(statistics) = statistics.upgrade() {
                let listeners = listeners.clone();
                let listeners = Listeners {
                    listeners,
                    statistics,
                };
                notify!(listeners, slow_operation(event));
            }
        }));
    }

    /// Calls a callback of each listener: see [`notify!`]. One that panics keeps neither the caller
    /// nor the others from going on; the others are notified of that.
    pub(crate) fn call(&self, callback: &str, call: impl Fn(&dyn EventListener)) {
        self.call_each(callback, &call);
    }

    /// Compiled once, not for each callback.
    fn call_each(&self, callback: &str, call: &dyn Fn(&dyn EventListener)) {
        for (index, listener) in self.listeners.iter().enumerate() {
            if mutant!(listener_panics_escape) {
                call(&**listener);
                continue;
            }
            if let Err(error) = self.try_call(&**listener, callback, call) {
                let others = self.listeners.iter().enumerate();
                for (_, other) in others.filter(|(other, _)| *other != index) {
                    // No further reports: two listeners that panic at each other's would not end.
                    let _ = self.try_call(&**other, "listener_panicked", &|l| {
                        l.listener_panicked(&error);
                    });
                }
            }
        }
    }

    fn try_call(
        &self,
        listener: &dyn EventListener,
        callback: &str,
        call: &dyn Fn(&dyn EventListener),
    ) -> Result<()> {
        contain(|| call(listener)).map_err(|panicked| {
            add(&self.statistics.listener_panics, 1);
            let name = name_of(|| listener.name());
            Error::internal(format!("the listener {name} {panicked} in {callback}"))
        })
    }
}
