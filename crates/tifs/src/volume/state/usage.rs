//! The counters of a volume.
//!
//! A stored counter that every operation wrote would make all of them wait for one key. So the
//! volume counts in memory, and stores the result when it is closed. An opening takes the stored
//! counters and removes them; after a crash there are none, and the opening counts all inodes.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use titan::invariant;

use crate::error::Result;
use crate::kv::{Commit, Kv, Scan, Space};
use crate::schema::{Inode, Key, Usage};
use crate::volume::state::attempts::until_committed;

/// Inodes read at once by a scan that counts.
const PAGE: usize = 4096;

/// The change of the counters by an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::volume) struct UsageChange {
    pub(in crate::volume) blocks: i64,
    pub(in crate::volume) inodes: i64,
}

/// The counters of an open volume.
pub(in crate::volume) struct UsageCounter {
    blocks: AtomicI64,
    inodes: AtomicI64,
    /// Nobody knows whether some operation took effect.
    is_uncertain: AtomicBool,
}

impl UsageCounter {
    /// The counters as they are stored, or counted.
    pub(in crate::volume) fn load(kv: &dyn Kv, read_only: bool) -> Result<Self> {
        let usage = match kv.get(Space::Meta, &Key::Usage.encode())? {
            Some(stored) => {
                let kept = mutant!(counters_kept_while_open);
                if !read_only && !kept {
                    // ORDER: before the first change, or a crash would leave counters that lack it.
                    remove_stored(kv)?;
                }
                Usage::decode(&stored)?
            }
            None => count(kv)?,
        };
        Ok(UsageCounter {
            blocks: AtomicI64::new(usage.blocks as i64),
            inodes: AtomicI64::new(usage.inodes as i64),
            is_uncertain: AtomicBool::new(false),
        })
    }

    pub(in crate::volume) fn add(&self, change: UsageChange) {
        self.blocks.fetch_add(change.blocks, Ordering::Relaxed);
        self.inodes.fetch_add(change.inodes, Ordering::Relaxed);
    }

    /// Notes that an operation may have taken effect or not: the next opening has to count.
    pub(in crate::volume) fn doubt(&self) {
        self.is_uncertain.store(true, Ordering::Release);
    }

    /// The counters to store, when nobody changes the volume any more: until then one operation
    /// may be counted before another that it follows.
    pub(in crate::volume) fn last(&self) -> Result<Option<Usage>> {
        if self.is_uncertain.load(Ordering::Acquire) {
            return Ok(None);
        }
        let (blocks, inodes) = (&self.blocks, &self.inodes);
        let (blocks, inodes) = (
            blocks.load(Ordering::Relaxed),
            inodes.load(Ordering::Relaxed),
        );
        invariant!(durable: blocks >= 0, "{blocks} blocks are used")?;
        invariant!(durable: inodes >= 1, "{inodes} inodes are used")?;
        invariant!(
            durable: inodes > 1 || blocks == 0,
            "the root alone uses {blocks} blocks"
        )?;
        Ok(Some(self.get()))
    }

    pub(in crate::volume) fn get(&self) -> Usage {
        let read = |counter: &AtomicI64| counter.load(Ordering::Relaxed).max(0) as u64;
        Usage {
            blocks: read(&self.blocks),
            inodes: read(&self.inodes),
        }
    }
}

fn remove_stored(kv: &dyn Kv) -> Result<()> {
    until_committed(|budget| {
        let mut transaction = kv.begin_within(budget)?;
        transaction.delete(Space::Meta, &Key::Usage.encode())?;
        Ok((transaction.commit()? == Commit::Committed).then_some(()))
    })
}

/// Counts the inodes of a store and the bytes that they take.
pub(in crate::volume) fn count(kv: &dyn Kv) -> Result<Usage> {
    let mut usage = Usage::default();
    let mut scan = Scan::prefix(Space::Meta, b"I").limit(PAGE);
    loop {
        let page = kv.scan(&scan)?;
        for (key, value) in &page {
            // Longer keys are content and extended attributes.
            if key.len() == 9 {
                usage.inodes += 1;
                usage.blocks += Inode::decode(value)?.blocks;
            }
        }
        match page.last() {
            Some((last, _)) if page.len() == PAGE => scan.begin = [last, &[0][..]].concat(),
            _ => return Ok(usage),
        }
    }
}
