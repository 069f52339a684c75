//! Calls back when the last holder of a watched version or snapshot lets go.

use std::sync::OnceLock;

/// Calls a function when a [watched](super::version::Version::watch) version or the oldest snapshot
/// ends.
#[derive(Default)]
pub(crate) struct Watch(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl Watch {
    /// Calls `ended` from now on, on the thread that was the last holder, which may have any lock:
    /// `ended` must wait for none of them. Has no effect the second time.
    pub(crate) fn on_end(&self, ended: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(ended));
    }

    pub(crate) fn notify(&self) {
        if let Some(ended) = self.0.get() {
            ended();
        }
    }
}
