//! Inode numbers: leased from the store in ranges, given out one by one.

use parking_lot::Mutex;
use titan::invariant;

use crate::error::Result;
use crate::kv::{Commit, Kv, Space};
use crate::schema::{FORMAT, InodeNumber, Key, inode_number_of};
use crate::volume::state::attempts::until_committed;

/// Numbers of a lease. A crash wastes at most as many.
const LEASE: u64 = 4096;

/// The numbers that this process has leased and not given out.
#[derive(Default)]
pub(in crate::volume) struct Numbers(Mutex<Leased>);

#[derive(Default)]
struct Leased {
    next: u64,
    end: u64,
}

impl Numbers {
    /// A number that no inode has or had.
    pub(in crate::volume) fn next(&self, kv: &dyn Kv) -> Result<InodeNumber> {
        let mut leased = self.0.lock();
        if leased.next == leased.end {
            *leased = lease(kv)?;
        }
        let number = InodeNumber(leased.next);
        leased.next += 1;
        invariant!(number > InodeNumber::ROOT, "{number} is given out");
        invariant!(leased.next <= leased.end, "{number} is not leased");
        Ok(number)
    }
}

fn lease(kv: &dyn Kv) -> Result<Leased> {
    let key = Key::NextInode.encode();
    until_committed(|budget| {
        let mut transaction = kv.begin_within(budget)?;
        let next = match transaction.get(Space::Meta, &key)? {
            Some(next) => inode_number_of(&next)?.0,
            None => InodeNumber::ROOT.0 + 1,
        };
        invariant!(
            durable: next > InodeNumber::ROOT.0 && next.checked_add(LEASE).is_some(),
            "numbers from {next} on are leased"
        )?;
        let mut value = vec![FORMAT];
        value.extend_from_slice(&(next + LEASE).to_be_bytes());
        if !mutant!(lease_not_stored) {
            transaction.put(Space::Meta, &key, &value)?;
        }
        Ok(
            (transaction.commit()? == Commit::Committed).then_some(Leased {
                next,
                end: next + LEASE,
            }),
        )
    })
}
