//! Reads of a volume on a cluster, as of a timestamp.
//!
//! Large reads are made in parts, so that each answer is far below the limits of nodes and client.
//! A part whose answer is too large nevertheless is read in smaller ones. A scan reads the keys of
//! blocks first, and then as many blocks as it returns.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use rustix::io::Errno;
use tikv_client::{BoundRange, Error as ClientError, Timestamp, TimestampExt, TransactionClient};

use super::client::options;
use super::failures::is_too_large;
use super::gc;
use super::shared::Shared;
use crate::error::{Error, Result};
use crate::kv::pending::Writes;
use crate::kv::remote::cluster::Deadline;
use crate::kv::remote::writes::{Page, scanned};
use crate::kv::{Direction, Pair, Scan, Space};

/// Rows that are read at once, of which each one may be as large as a block of a file.
const LARGE_ROWS: usize = 16;
/// Rows that are read at once, if each is small.
const SMALL_ROWS: usize = 1024;
/// Blocks of one page of a scan.
const BLOCKS: usize = 128;

/// The store as of a timestamp.
pub(super) struct Reads<'a> {
    pub(super) store: &'a Shared,
    pub(super) at: Timestamp,
    /// It may last for hours.
    pub(super) is_long: bool,
    /// The deadline of the operation; `None` if it may last longer than a call.
    pub(super) deadline: Option<Deadline>,
}

impl Reads<'_> {
    /// The deadline of a call that begins now.
    pub(super) fn deadline(&self) -> Deadline {
        let of_call = || self.store.cluster.deadline();
        self.deadline.unwrap_or_else(of_call)
    }

    pub(super) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let key = self.store.keys.of(space, key);
        let cluster = &self.store.cluster;
        let value = cluster.call(self.deadline(), async |client: TransactionClient| {
            let mut snapshot = client.snapshot(self.at.clone(), options());
            snapshot.get(key.clone()).await
        })?;
        Ok(value.map(Bytes::from))
    }

    /// The values of keys, in their order.
    pub(super) fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        if let [key] = keys {
            return Ok(vec![self.get(space, key)?]);
        }
        let deadline = self.deadline();
        let mut found = BTreeMap::new();
        let rows = match space {
            Space::Data => LARGE_ROWS,
            Space::Meta => SMALL_ROWS,
        };
        for keys in keys.chunks(rows) {
            let keys: Vec<Vec<u8>> = { keys.iter() }
                .map(|key| self.store.keys.of(space, key))
                .collect();
            self.read_many(&keys, deadline, &mut found)?;
        }
        let value = |key: &Vec<u8>| found.get(&self.store.keys.of(space, key)).cloned();
        Ok(keys.iter().map(value).collect())
    }

    /// Adds the values of stored keys to `found`.
    fn read_many(
        &self,
        keys: &[Vec<u8>],
        deadline: Deadline,
        found: &mut BTreeMap<Vec<u8>, Bytes>,
    ) -> Result<()> {
        let read = self
            .store
            .cluster
            .call(deadline, async |client: TransactionClient| {
                let mut snapshot = client.snapshot(self.at.clone(), options());
                match snapshot.batch_get(keys.to_vec()).await {
                    Ok(pairs) => Ok(Some(pairs.collect::<Vec<_>>())),
                    Err(error) if is_too_large(&error) && keys.len() > 1 => Ok(None),
                    Err(error) => Err(error),
                }
            })?;
        let Some(pairs) = read else {
            let (first, second) = keys.split_at(keys.len() / 2);
            self.read_many(first, deadline, found)?;
            return self.read_many(second, deadline, found);
        };
        found.extend(pairs.into_iter().map(|pair| {
            let (key, value): (tikv_client::Key, Vec<u8>) = pair.into();
            (Vec::from(key), Bytes::from(value))
        }));
        Ok(())
    }

    /// The pairs of a range, with `writes` on top.
    pub(super) fn scan(&self, scan: &Scan, writes: &Writes) -> Result<Vec<Pair>> {
        scanned(scan, writes, |range, wanted| self.page(scan, range, wanted))
    }

    /// # Errors
    /// `EIO` if the cluster may have dropped values that were to be read.
    fn check_safe_point(&self) -> Result<()> {
        let safe = gc::safe_point(&self.store.cluster)?;
        if self.at.version() >= safe {
            return Ok(());
        }
        let what = "a mount has let the cluster drop what was replaced since this began to read: repeat it, after \
                    all mounts of the cluster have a longer gc=TIME";
        Err(Error::new(Errno::IO, what))
    }

    /// The first rows of a range, in the direction of the scan.
    fn page(&self, scan: &Scan, range: &Range<Vec<u8>>, wanted: usize) -> Result<Page> {
        let windows = &self.store.windows;
        let has_blocks = scan.space == Space::Data && !scan.keys_only;
        let most = if has_blocks { BLOCKS } else { SMALL_ROWS };
        let mut window = windows.of(scan, range, wanted.min(most));
        let (keys, cluster) = (&self.store.keys, &self.store.cluster);
        let from = keys.of(scan.space, &window.range.start);
        let to = keys.of(scan.space, &window.range.end);
        let deadline = self.deadline();
        let mut pairs = loop {
            let rows = window.rows;
            let read = cluster.call(deadline, async |client: TransactionClient| {
                let range = BoundRange::from(from.clone()..to.clone());
                let keys_only = scan.keys_only || has_blocks;
                match self
                    .rows(&client, scan.direction, keys_only, range, rows)
                    .await
                {
                    Ok(pairs) => Ok(Some(pairs)),
                    Err(error) if is_too_large(&error) && rows > 1 => Ok(None),
                    Err(error) => Err(error),
                }
            })?;
            match read {
                Some(pairs) => break pairs,
                None => window.rows = (rows / 4).max(1),
            }
        };
        windows.note(scan, range, &window, &pairs);
        let are_all = pairs.len() < window.rows;
        if has_blocks {
            let keys: Vec<Vec<u8>> = pairs.iter().map(|(key, _)| key.to_vec()).collect();
            let values = self.multi_get(scan.space, &keys)?;
            pairs = { pairs.into_iter().zip(values) }
                .filter_map(|((key, _), value)| Some((key, value?)))
                .collect();
        }
        // After the reads: values dropped before they began may be missing.
        if self.is_long {
            self.check_safe_point()?;
        }
        Ok(Page::new(pairs, window.range, scan.direction, are_all))
    }

    async fn rows(
        &self,
        client: &TransactionClient,
        direction: Direction,
        keys_only: bool,
        range: BoundRange,
        rows: usize,
    ) -> Result<Vec<Pair>, ClientError> {
        // A snapshot of the client keeps all that it has read.
        let mut snapshot = client.snapshot(self.at.clone(), options());
        let limit = u32::try_from(rows).unwrap_or(u32::MAX);
        let own = |key: tikv_client::Key| {
            let key = Vec::from(key);
            Bytes::copy_from_slice(self.store.keys.own_part(&key))
        };
        let bare = |key| (own(key), Bytes::new());
        let whole = |pair: tikv_client::KvPair| {
            let (key, value): (tikv_client::Key, Vec<u8>) = pair.into();
            (own(key), Bytes::from(value))
        };
        Ok(match (direction, keys_only) {
            (Direction::Forward, true) => { snapshot.scan_keys(range, limit).await? }
                .map(bare)
                .collect(),
            (Direction::Backward, true) => { snapshot.scan_keys_reverse(range, limit).await? }
                .map(bare)
                .collect(),
            (Direction::Forward, false) => {
                { snapshot.scan(range, limit).await? }.map(whole).collect()
            }
            (Direction::Backward, false) => { snapshot.scan_reverse(range, limit).await? }
                .map(whole)
                .collect(),
        })
    }
}
