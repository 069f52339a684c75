//! Word of the end of versions that hold something.

use std::sync::OnceLock;

/// Told when a [watched](super::Version::watch) version ends: nobody can read from it any more.
#[derive(Default)]
pub(crate) struct VersionWatch {
    ended: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl VersionWatch {
    /// Calls `ended` from now on, on the thread that lets go of a version last. Without effect the
    /// second time.
    pub(crate) fn on_end(&self, ended: impl Fn() + Send + Sync + 'static) {
        let _ = self.ended.set(Box::new(ended));
    }

    pub(super) fn tell(&self) {
        if let Some(ended) = self.ended.get() {
            ended();
        }
    }
}
