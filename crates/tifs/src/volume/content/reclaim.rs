//! Reclaiming: blocks of orphans and truncated files are deleted, piece by piece.
//!
//! The transaction that causes the work stores it, so a crash forgets nothing. The queue in memory
//! only finds it. Each piece is a transaction after which the volume is consistent. One piece
//! deletes many small orphans.

use titan::invariant;

use crate::error::Result;
use crate::kv::{Scan, Space};
use crate::schema::{Inode, InodeNumber, Key};
use crate::volume::content::truncate::PIECE;
use crate::volume::state::change::Change;
use crate::volume::state::volume::Volume;

impl Volume {
    /// Reclaims everything now.
    ///
    /// # Errors
    /// Those of the store. A later call does the rest.
    pub fn reclaim_all(&self) -> Result<()> {
        while self.reclaim_queue.len() > 0 && !self.options.read_only {
            self.reclaim_batch()?;
        }
        Ok(())
    }

    /// Reclaims the first inodes of the queue, or a piece of them. True if it was a piece: the
    /// caller goes on, and has time for other work before.
    ///
    /// # Errors
    /// Those of the store; inodes that were not deleted are queued again.
    pub(in crate::volume) fn reclaim_batch(&self) -> Result<bool> {
        if self.options.read_only {
            return Ok(false);
        }
        let batch = self.reclaim_queue.next_batch();
        invariant!(
            !batch.contains(&InodeNumber::ROOT),
            "the root is to be deleted"
        );
        let mut left = batch.clone();
        let result = self.reclaim(&batch, &mut left);
        if result.is_err() && mutant!(failed_reclaim_forgotten) {
            left.clear();
        }
        let is_piece = !left.is_empty();
        for inode in left {
            self.reclaim_queue.push(inode);
        }
        result.map(|()| is_piece)
    }

    /// Reclaims inodes, or a piece of them. Leaves those in `left` that have more.
    fn reclaim(&self, batch: &[InodeNumber], left: &mut Vec<InodeNumber>) -> Result<()> {
        let mut orphans = Vec::with_capacity(batch.len());
        for number in batch {
            if self.is_unused_orphan(*number)? {
                orphans.push(*number);
            } else if self.cut_truncated(*number)? {
                left.retain(|other| other != number);
            }
        }
        let mut delete = |orphans: &[InodeNumber]| -> Result<()> {
            // No locks: nobody can reach an orphan that nobody refers to. If another thread deletes
            // the same one, the transactions conflict.
            let deleted = self.change(|change| change.delete_orphans(orphans))?;
            left.retain(|number| !deleted.contains(number));
            invariant!(
                deleted.iter().all(|number| !self.references.has(*number)),
                "an inode in use was deleted: {deleted:?}"
            );
            Ok(())
        };
        if orphans.is_empty() || delete(&orphans).is_ok() {
            return Ok(());
        }
        // A damaged one does not keep the others.
        let one_by_one = orphans.iter().map(|orphan| delete(&[*orphan]));
        one_by_one.fold(Ok(()), Result::and)
    }

    /// An orphan in use may be queued because it was truncated. When the last reference goes, it is
    /// queued again.
    fn is_unused_orphan(&self, number: InodeNumber) -> Result<bool> {
        if mutant!(references_looked_for_first) {
            let referred = self.references.has(number);
            let orphan = self.kv.get(Space::Meta, &Key::Orphan(number).encode())?;
            return Ok(orphan.is_some() && !referred);
        }
        // ORDER: the names first. An inode without names gets no new references, so if there are
        // none then, there are none later.
        let orphan = self.kv.get(Space::Meta, &Key::Orphan(number).encode())?;
        Ok(orphan.is_some() && !self.references.has(number))
    }

    /// Deletes a piece of the blocks that truncations of a file left. True if none is left. Others
    /// may use the file between two pieces.
    fn cut_truncated(&self, number: InodeNumber) -> Result<bool> {
        let _lock = self.locks.exclusive(&[number])?;
        let inode = self.kv.get(Space::Meta, &Key::Inode(number).encode())?;
        let Some(inode) = inode else { return Ok(true) };
        Ok(Inode::decode(&inode)?.stale_end == 0
            || self.change(|change| change.cut_stale_blocks(number))?)
    }
}

impl Change<'_> {
    /// Deletes orphans, up to the first with more blocks and extended attributes than one
    /// transaction deletes. Returns those that are gone.
    fn delete_orphans(&mut self, numbers: &[InodeNumber]) -> Result<Vec<InodeNumber>> {
        let mut deleted = Vec::with_capacity(numbers.len());
        let mut left = PIECE;
        for number in numbers {
            if left == 0 {
                break;
            }
            // A number can be queued twice.
            if self.get(Key::Orphan(*number))?.is_some() {
                let inode = self.inode(*number)?;
                left -= self.delete_blocks(*number, &inode, left)?;
                left -= self.delete_attributes(*number, &inode, left)?;
                if left == 0 {
                    break;
                }
                self.delete_inode(*number, &inode)?;
            }
            deleted.push(*number);
        }
        Ok(deleted)
    }

    /// Deletes at most so many blocks of an orphan. Returns their number.
    fn delete_blocks(
        &mut self,
        number: InodeNumber,
        inode: &Inode,
        at_most: usize,
    ) -> Result<usize> {
        if inode.is_inline() {
            return Ok(0);
        }
        let stored = self.stored_blocks(number, 0..u64::MAX, at_most)?;
        let forgotten = mutant!(last_block_not_deleted);
        for block in stored.iter().rev().skip(usize::from(forgotten)) {
            self.delete_block(number, *block)?;
        }
        Ok(stored.len())
    }

    /// Deletes at most so many extended attributes of an orphan. Returns their number.
    fn delete_attributes(
        &mut self,
        number: InodeNumber,
        inode: &Inode,
        at_most: usize,
    ) -> Result<usize> {
        if !inode.has_attributes {
            return Ok(0);
        }
        let prefix = Key::Attribute(number, b"").encode();
        let some = Scan::prefix(Space::Meta, &prefix)
            .keys_only()
            .limit(at_most);
        let found = self.transaction.scan(&some)?;
        for (key, _) in &found {
            self.transaction.delete(Space::Meta, key)?;
        }
        Ok(found.len())
    }

    /// Deletes an orphan without blocks and extended attributes.
    fn delete_inode(&mut self, number: InodeNumber, inode: &Inode) -> Result<()> {
        invariant!(
            self.stored_blocks(number, 0..u64::MAX, 1)?.is_empty(),
            "inode {number} is deleted and its blocks stay"
        );
        if inode.is_inline() && inode.size > 0 {
            self.delete(Key::Inline(number))?;
        }
        if inode.stale_end > 0 {
            self.delete(Key::Reclaim(number))?;
        }
        self.delete(Key::Inode(number))?;
        self.delete(Key::Orphan(number))?;
        self.usage.inodes -= 1;
        self.usage.blocks -= inode.blocks as i64;
        Ok(())
    }
}
