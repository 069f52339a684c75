//! Values that were replaced long ago: the cluster may drop them.
//!
//! The cluster answers reads that are older than the values that it has dropped, as if those had
//! never been. So a process that lets it drop values says so before, for readers of all volumes.

use std::time::Duration;

use tikv_client::{Error as ClientError, Timestamp, TimestampExt, TransactionClient};

use super::client::{Cluster, options, timestamp};
use super::failures::has_surely_failed;
use super::shared::Shared;
use crate::error::{Error, Result};

/// The key of the latest safe point. No volume has an empty name.
const SAFE_POINT: &[u8] = b"tifs//safe";
/// The first byte of its value, as of all that a volume stores.
const FORMAT: u8 = 1;
/// The longest time that it may take to drop values: locks of all regions are looked at.
const AT_MOST: Duration = Duration::from_secs(3600);

/// Lets the cluster drop values, of all its users, that were replaced before this time.
pub(super) fn drop_replaced(store: &Shared, age: Duration) -> Result<()> {
    let deadline = store.cluster.deadline();
    let now = timestamp(&store.cluster, deadline)?;
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let safe_point = Timestamp {
        physical: now.physical.saturating_sub(age).max(0),
        ..now
    };
    // ORDER: readers know it before anything is dropped.
    note(&store.cluster, safe_point.version())?;
    // Another program may have moved it further. No repetition: it is done again later.
    let moved = store
        .cluster
        .long(AT_MOST, async |client: TransactionClient| {
            client.gc(safe_point.clone()).await
        });
    moved.map(drop)
}

/// The version before which values may have been dropped; 0 if none were.
pub(super) fn safe_point(cluster: &Cluster) -> Result<u64> {
    let found = cluster.call(cluster.deadline(), async |client: TransactionClient| {
        let now = client.current_timestamp().await?;
        let mut snapshot = client.snapshot(now, options());
        snapshot.get(SAFE_POINT.to_vec()).await
    })?;
    decode(found.as_deref())
}

/// Stores a safe point, unless a later one is stored.
pub(super) fn note(cluster: &Cluster, version: u64) -> Result<()> {
    let deadline = cluster.deadline();
    loop {
        let done = cluster.call(deadline, async |client: TransactionClient| {
            let mut transaction = client.begin_with_options(options()).await?;
            let start = transaction.start_timestamp().version();
            let found = transaction.get(SAFE_POINT.to_vec()).await?;
            match decode(found.as_deref()) {
                Err(error) => return Ok(Some(Err(error))),
                Ok(known) if known >= version => return Ok(Some(Ok(()))),
                Ok(_) => {}
            }
            let value = [&[FORMAT][..], &version.to_be_bytes()].concat();
            transaction.put(SAFE_POINT.to_vec(), value).await?;
            let Err(error) = transaction.commit().await else {
                return Ok(Some(Ok(())));
            };
            if has_surely_failed(&error, start) {
                // Without its locks, the next attempt does not wait.
                let _ = transaction.rollback().await;
            }
            // The next attempt sees whether this one was done.
            Ok::<_, ClientError>(None)
        })?;
        match done {
            Some(done) => return done,
            None => cluster.wait_before_repetition(deadline)?,
        }
    }
}

fn decode(value: Option<&[u8]>) -> Result<u64> {
    let Some(value) = value else {
        return Ok(0);
    };
    let version = value.split_first().filter(|(format, _)| **format == FORMAT);
    let version = version.and_then(|(_, version)| version.try_into().ok());
    let version = version.ok_or_else(|| {
        Error::corrupt("the record of the versions that the cluster has dropped cannot be read")
    })?;
    Ok(u64::from_be_bytes(version))
}
