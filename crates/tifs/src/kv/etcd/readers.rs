//! Processes that read volumes of a cluster without writing them, such as dumps: nothing that they
//! read is dropped.
//!
//! Each has a key with the revision from which it reads, under a lease. The keys are those of all
//! volumes, since etcd drops revisions of all.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::base::Base;
use super::client::EtcdClient;
use super::wire::{PutRequest, RangeRequest, Request, TransactionRequest};
use crate::error::Result;
use crate::kv::remote::cluster::Deadline;

/// The beginning of the keys. No volume has an empty name.
const PREFIX: &[u8] = b"tifs//reader/";
const END: &[u8] = b"tifs//reader0";

/// This process as a reader.
pub(super) struct Reader {
    /// The lease of its key.
    lease: AtomicI64,
    /// A lease has ended before its time.
    has_lapsed: AtomicBool,
}

impl Reader {
    /// Begins to read.
    pub(super) fn begin(base: &Base) -> Result<Reader> {
        base.ask()?;
        Ok(Reader {
            lease: AtomicI64::new(register(base, base.cluster.deadline())?),
            has_lapsed: AtomicBool::new(false),
        })
    }

    /// Whether there was a time in which nobody knew that this process reads.
    pub(super) fn has_lapsed(&self) -> bool {
        self.has_lapsed.load(Ordering::Relaxed)
    }

    /// Puts off the end of the lease. If it has ended, revisions that are still there are kept from
    /// now on.
    pub(super) fn renew(&self, base: &Base) -> Result<()> {
        let lease = self.lease.load(Ordering::Relaxed);
        let deadline = base.cluster.far_deadline();
        let kept = base.cluster.call(deadline, async |client: EtcdClient| {
            client.keep_alive(lease).await
        })?;
        if kept.ttl > 0 {
            return Ok(());
        }
        self.has_lapsed.store(true, Ordering::Relaxed);
        self.lease
            .store(register(base, deadline)?, Ordering::Relaxed);
        Ok(())
    }

    /// Ends reading.
    pub(super) fn end(&self, base: &Base) {
        let lease = self.lease.load(Ordering::Relaxed);
        // It runs out by itself.
        let _ = base
            .cluster
            .once(base.url.timeout, async |client: EtcdClient| {
                client.revoke(lease).await
            });
    }
}

/// Stores a key with the oldest revision that this process reads at, and returns its lease.
fn register(base: &Base, deadline: Deadline) -> Result<i64> {
    let revision = base.moments.oldest();
    let seconds = base.url.lease.as_secs().cast_signed();
    let lease = base.cluster.call(deadline, async |client: EtcdClient| {
        client.grant(seconds).await
    })?;
    let request = PutRequest {
        key: [PREFIX, &lease.id.to_be_bytes()].concat(),
        value: revision.to_be_bytes().to_vec().into(),
        lease: lease.id,
        prev_kv: false,
    };
    // ORDER: before the next read, which begins at this revision or after it.
    base.change_if(Vec::new(), vec![Request::Put(request)], deadline)?;
    Ok(lease.id)
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
