//! Processes that read volumes of a cluster without writing them, such as dumps: nothing that they
//! read is dropped.
//!
//! Each has a key with the revision from which it reads, under a lease. The keys are those of all
//! volumes, since etcd drops revisions of all.

use std::time::Duration;

use super::base::Base;
use super::client::EtcdClient;
use super::wire::{PutRequest, RangeRequest, Request, TransactionRequest};
use crate::error::{Error, Result};

/// The beginning of the keys. No volume has an empty name.
const PREFIX: &[u8] = b"tifs//reader/";
const END: &[u8] = b"tifs//reader0";

/// The key of this process as a reader.
pub(super) struct Reader {
    lease: i64,
}

impl Reader {
    /// Begins to read.
    pub(super) fn begin(base: &Base, lease: Duration) -> Result<Reader> {
        base.ask()?;
        let revision = base.moments.open().revision;
        let deadline = base.cluster.deadline();
        let seconds = lease.as_secs().cast_signed();
        let lease = base.cluster.call(deadline, async |client: EtcdClient| {
            client.grant(seconds).await
        })?;
        let request = PutRequest {
            key: [PREFIX, &lease.id.to_be_bytes()].concat(),
            value: revision.to_be_bytes().to_vec().into(),
            lease: lease.id,
            prev_kv: false,
        };
        // ORDER: before the first read, which begins after this revision.
        base.change_if(Vec::new(), vec![Request::Put(request)], deadline)?;
        Ok(Reader { lease: lease.id })
    }

    /// Puts off the end of the lease.
    pub(super) fn renew(&self, base: &Base) -> Result<()> {
        let lease = self.lease;
        let deadline = base.cluster.far_deadline();
        let kept = base.cluster.call(deadline, async |client: EtcdClient| {
            client.keep_alive(lease).await
        })?;
        match kept.ttl > 0 {
            true => Ok(()),
            false => Err(Error::outdated()),
        }
    }

    /// Ends reading.
    pub(super) fn end(&self, base: &Base) {
        let lease = self.lease;
        // It runs out by itself.
        let _ = base
            .cluster
            .once(base.url.timeout, async |client: EtcdClient| {
                client.revoke(lease).await
            });
    }
}

/// The oldest revision that a reader needs.
pub(super) fn oldest(base: &Base) -> Result<i64> {
    let range = RangeRequest {
        key: PREFIX.to_vec(),
        range_end: END.to_vec(),
        ..RangeRequest::default()
    };
    let request = TransactionRequest {
        success: vec![Request::Range(range).into()],
        ..TransactionRequest::default()
    };
    let deadline = base.cluster.deadline();
    let found = base.cluster.call(deadline, async |client: EtcdClient| {
        client.transaction(request.clone()).await
    })?;
    let revision = |value: &[u8]| value.try_into().map(i64::from_be_bytes);
    let all = found.into_pairs();
    // A value of another kind may mean any.
    let revisions = all.iter().map(|pair| revision(&pair.value).unwrap_or(0));
    Ok(revisions.min().unwrap_or(i64::MAX))
}
