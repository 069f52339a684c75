//! Memory as permits of a semaphore.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Bytes that one permit stands for.
pub(crate) const PERMIT_BYTES: usize = 1024;

/// A semaphore with so many permits, at least one.
pub(crate) fn permits(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count.clamp(1, Semaphore::MAX_PERMITS)))
}

/// The permits of a limit in bytes.
pub(crate) fn memory(limit: usize) -> Arc<Semaphore> {
    permits(limit / PERMIT_BYTES)
}
