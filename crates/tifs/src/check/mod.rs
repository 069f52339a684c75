//! Checks that a volume is what its schema says: `fsck`.
//!
//! Owns the list of what must hold, which is the [`Problem`]s. Reads everything as of one moment, and
//! changes nothing. A crash leaves no problem: what it interrupts is either done or not, and what is
//! left to delete is listed in the volume. So a problem is damage, or a bug.
//!
//! Memory: about 100 bytes for each inode.

mod content;
mod inodes;
mod names;
mod problem;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use bytes::Bytes;
use serde::Serialize;

use crate::error::Result;
use crate::kv::{Kv, Reader, Scan, Space};
use crate::schema::{Inode, InodeNumber, Key, Superblock, Usage, inode_number_of};

pub use problem::{Finding, Problem};

/// How many keys are read at once.
const PAGE: usize = 1024;

/// How many problems are kept. More are only counted.
const FINDINGS_MAX: usize = 1000;

/// What a check found, and how much there was to check.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Files, directories and all else that has an inode.
    pub inodes: u64,
    /// Names in directories.
    pub entries: u64,
    /// Extended attributes.
    pub attributes: u64,
    /// Blocks of files.
    pub blocks: u64,
    /// Bytes in blocks and in small files.
    pub bytes: u64,
    /// Inodes without names, which the next opening deletes.
    pub orphans: u64,
    /// Truncated files whose blocks the next opening deletes.
    pub truncated: u64,
    /// How many problems there are.
    pub problems: u64,
    /// The first of them.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether there are no problems.
    pub fn is_clean(&self) -> bool {
        self.problems == 0
    }
}

/// Checks a volume. `progress` is called with the number of keys that have been read, and ends the
/// check by returning false.
///
/// Cost: reads all metadata, and looks up the length of each block. With `read_content`, reads all
/// content, so that the store verifies its checksums.
///
/// # Errors
/// Those of the store. Damage of values is no error but a finding. `EINTR` if `progress` ended it.
pub fn check(
    kv: &dyn Kv,
    read_content: bool,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Report> {
    let mut check = Check {
        snapshot: kv.snapshot()?,
        report: Report::default(),
        inodes: HashMap::new(),
        keys: 0,
        progress,
    };
    let next = check.superblock()?;
    check.read_inodes(next)?;
    check.read_names()?;
    check.read_marks()?;
    check.read_blocks(read_content)?;
    check.compare_inodes();
    check.compare_usage()?;
    Ok(check.report)
}

/// An inode, and what other keys say about it.
struct Seen {
    inode: Inode,
    /// Names that lead to it.
    names: u32,
    /// Directories in it.
    directories: u32,
    /// The directory that has it, if it is one.
    directory: Option<InodeNumber>,
    is_orphan: bool,
    is_truncated: bool,
    /// Units of `st_blocks` that were found.
    units: u64,
    /// Bytes of the content beside the attributes.
    inline: Option<u64>,
}

struct Check<'a> {
    snapshot: Box<dyn Reader + 'a>,
    report: Report,
    inodes: HashMap<InodeNumber, Seen>,
    keys: u64,
    progress: &'a mut dyn FnMut(u64) -> bool,
}

impl Check<'_> {
    fn found(&mut self, problem: Problem, inode: Option<InodeNumber>, detail: impl Into<String>) {
        self.report.problems += 1;
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(Finding {
                problem,
                inode: inode.map(|inode| inode.0),
                detail: detail.into(),
            });
        }
    }

    /// The superblock and the next inode number.
    fn superblock(&mut self) -> Result<Option<InodeNumber>> {
        match self.snapshot.get(Space::Meta, &Key::Superblock.encode())? {
            None => self.found(Problem::Superblock, None, "there is none"),
            Some(value) => {
                if let Err(e) = Superblock::decode(&value) {
                    self.found(Problem::Superblock, None, e.context());
                }
            }
        }
        let next = self.snapshot.get(Space::Meta, &Key::NextInode.encode())?;
        let Some(next) = next else {
            return Ok(Some(InodeNumber(InodeNumber::ROOT.0 + 1)));
        };
        Ok(inode_number_of(&next)
            .inspect_err(|e| self.found(Problem::Damaged, None, e.context()))
            .ok())
    }

    /// Calls `each` for all keys with a prefix, page by page.
    fn each(
        &mut self,
        space: Space,
        prefix: &[u8],
        keys_only: bool,
        mut each: impl FnMut(&mut Self, &[(Bytes, Bytes)]) -> Result<()>,
    ) -> Result<()> {
        let mut scan = Scan::prefix(space, prefix).limit(PAGE);
        scan.keys_only = keys_only;
        loop {
            let page = self.snapshot.scan(&scan)?;
            each(self, &page)?;
            self.keys += page.len() as u64;
            if !(self.progress)(self.keys) {
                return Err(rustix::io::Errno::INTR.into());
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE => scan.begin = [last, &[0][..]].concat(),
                _ => return Ok(()),
            }
        }
    }

    /// Orphans, and truncated files.
    fn read_marks(&mut self) -> Result<()> {
        for (letter, is_orphan) in [(b"O", true), (b"D", false)] {
            self.each(Space::Meta, letter, true, |check, page| {
                for (key, _) in page {
                    let inode = Key::inode_of(key);
                    match inode.and_then(|inode| check.inodes.get_mut(&inode)) {
                        Some(seen) if is_orphan => {
                            seen.is_orphan = true;
                            check.report.orphans += 1;
                        }
                        Some(seen) => {
                            seen.is_truncated = true;
                            check.report.truncated += 1;
                        }
                        None => {
                            let detail = "an inode that does not exist is to be deleted";
                            check.found(Problem::UnknownInode, inode, detail);
                        }
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn compare_usage(&mut self) -> Result<()> {
        let stored = self.snapshot.get(Space::Meta, &Key::Usage.encode())?;
        let Some(stored) = stored else { return Ok(()) };
        let counted = Usage {
            blocks: self.inodes.values().map(|seen| seen.inode.blocks).sum(),
            inodes: self.inodes.len() as u64,
        };
        match Usage::decode(&stored) {
            Err(e) => self.found(Problem::Damaged, None, e.context()),
            Ok(stored) if stored != counted => {
                let detail = format!(
                    "{} inodes and {} units of 512 bytes are stored, {} and {} are there",
                    stored.inodes, stored.blocks, counted.inodes, counted.blocks
                );
                self.found(Problem::Counters, None, detail);
            }
            Ok(_) => {}
        }
        Ok(())
    }
}
