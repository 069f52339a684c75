//! Word of the end of what is held.

use std::sync::OnceLock;

/// Tells whoever waits for the end of something: of [watched](super::Version::watch) versions, or
/// of the oldest snapshot.
#[derive(Default)]
pub(crate) struct Watch(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl Watch {
    /// Calls `ended` from now on, on the thread that was the last to hold something. Without effect
    /// the second time.
    pub(crate) fn on_end(&self, ended: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(ended));
    }

    pub(crate) fn tell(&self) {
        if let Some(ended) = self.0.get() {
            ended();
        }
    }
}
