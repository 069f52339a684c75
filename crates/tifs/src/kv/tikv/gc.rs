//! Values that were replaced long ago: the cluster may drop them.

use std::time::Duration;

use tikv_client::{Timestamp, TransactionClient};

use super::client::timestamp;
use super::shared::Shared;
use crate::error::Result;

/// Lets the cluster drop values, of all its users, that were replaced before this time.
pub(super) fn drop_replaced(store: &Shared, age: Duration) -> Result<()> {
    let deadline = store.cluster.deadline();
    let now = timestamp(&store.cluster, deadline)?;
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let safe_point = Timestamp {
        physical: now.physical.saturating_sub(age).max(0),
        ..now
    };
    // Another program may have moved it further. No repetition: it is done again later.
    let moved = store
        .cluster
        .once(store.url.timeout, async |client: TransactionClient| {
            client.gc(safe_point.clone()).await
        });
    moved.map(drop)
}
