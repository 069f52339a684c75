//! Checks a volume against its schema: `fsck`.
//!
//! The invariants are the [`Problem`]s. The check reads everything as of one moment and changes
//! nothing. A crash leaves no problem: an interrupted operation took effect or did not, and the
//! volume lists the inodes that have something to delete. So a problem is damage or a bug.
//!
//! Where the store cannot be read, the check notes that and goes on. A fact that is unknown for
//! this reason is [`Problem::Unreadable`] and nothing else: a file whose attributes cannot be read
//! is not reported as missing.
//!
//! Memory: about 100 bytes for each inode.

mod content;
mod damage;
mod inodes;
mod lost;
mod names;
mod problem;
#[cfg(test)]
mod tests;
mod unreadable;

use std::collections::HashMap;

use bytes::Bytes;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::kv::{Kv, Readable, Reader, Scan, Space};
use crate::schema::{Inode, InodeNumber, Key, Superblock, Usage, inode_number_of};

pub use problem::{Finding, Problem};
use unreadable::{Got, Unreadable};

/// Keys read at once.
const PAGE: usize = 1024;

/// Problems that are kept. More are only counted.
const FINDINGS_MAX: usize = 1000;

/// The findings of a check, and its extent.
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
    /// The number of problems.
    pub problems: u64,
    /// The first of them.
    pub findings: Vec<Finding>,
    /// Facts worth knowing that are no problems.
    pub notes: Vec<String>,
}

impl Report {
    /// The report on a volume of which nothing can be read, because of `detail`.
    pub fn of_unreadable(detail: String) -> Report {
        let finding = Finding {
            problem: Problem::Unreadable,
            inode: None,
            detail,
        };
        Report {
            problems: 1,
            findings: vec![finding],
            ..Report::default()
        }
    }

    /// Whether there are no problems.
    pub fn is_clean(&self) -> bool {
        self.problems == 0
    }

    /// Whether content is missing that another store should have.
    pub fn has_lost_content(&self) -> bool {
        { &self.findings }
            .iter()
            .any(|finding| finding.problem == Problem::Lost)
    }

    /// Whether the store itself, or what it has, is damaged.
    pub fn is_damaged(&self) -> bool {
        let is_damage = |problem| matches!(problem, Problem::Unreadable | Problem::Damaged);
        { &self.findings }
            .iter()
            .any(|finding| is_damage(finding.problem))
    }
}

/// Checks a volume. `progress` is called with the number of keys that have been read, and ends the
/// check by returning false.
///
/// Cost: reads all metadata, and looks up the length of each block. With `read_content`, reads all
/// content, so that the store verifies its checksums.
///
/// # Errors
/// Those of the store, but damage is no error: it is a finding. `EINTR` if `progress` ended it.
pub fn check(
    kv: &dyn Kv,
    read_content: bool,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Report> {
    let mut check = Check {
        snapshot: kv.snapshot()?,
        report: Report::default(),
        inodes: HashMap::new(),
        unreadable: Unreadable::default(),
        keys: 0,
        progress,
    };
    let next = check.superblock()?;
    check.read_inodes(next)?;
    check.read_names()?;
    check.read_marks()?;
    check.read_blocks(read_content)?;
    check.name_lost()?;
    check.compare_inodes();
    check.compare_usage()?;
    Ok(check.report)
}

/// An inode, and the facts that other keys state about it.
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
    unreadable: Unreadable,
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
        match self.get(Key::Superblock)? {
            Got::Nothing => self.found(Problem::Superblock, None, "there is none"),
            Got::Value(value) => {
                if let Err(e) = Superblock::decode(&value) {
                    self.found(Problem::Superblock, None, e.context());
                }
            }
            Got::Unreadable => {}
        }
        Ok(match self.get(Key::NextInode)? {
            Got::Nothing => Some(InodeNumber(InodeNumber::ROOT.0 + 1)),
            Got::Value(next) => inode_number_of(&next)
                .inspect_err(|e| self.found(Problem::Damaged, None, e.context()))
                .ok(),
            Got::Unreadable => None,
        })
    }

    /// Calls `each` for all keys with a prefix that can be read, page by page.
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
            let Readable { pairs, damage } = self.snapshot.scan_readable(&scan)?;
            each(self, &pairs)?;
            self.keys += pairs.len() as u64;
            if !(self.progress)(self.keys) {
                return Err(Error::interrupted());
            }
            let is_full = pairs.len() == PAGE;
            if let Some((last, _)) = pairs.last() {
                scan.begin = [last, &[0][..]].concat();
            }
            if let Some(damage) = damage {
                match self.pass_over(space, scan.begin, &scan.end, damage) {
                    Some(after) => scan.begin = after,
                    None => return Ok(()),
                }
            } else if !is_full {
                return Ok(());
            }
        }
    }

    /// Orphans, and truncated files.
    fn read_marks(&mut self) -> Result<()> {
        for (letter, is_orphan) in [(b"O", true), (b"D", false)] {
            self.each(Space::Meta, letter, true, |check, page| {
                for (key, _) in page {
                    let inode = Key::inode_of(key);
                    let is_unreadable = inode.is_some_and(|inode| check.may_exist(inode));
                    match inode.and_then(|inode| check.inodes.get_mut(&inode)) {
                        Some(seen) if is_orphan => {
                            seen.is_orphan = true;
                            check.report.orphans += 1;
                        }
                        Some(seen) => {
                            seen.is_truncated = true;
                            check.report.truncated += 1;
                        }
                        None if is_unreadable => {}
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
        let Got::Value(stored) = self.get(Key::Usage)? else {
            return Ok(());
        };
        let counted = Usage {
            blocks: self.inodes.values().map(|seen| seen.inode.blocks).sum(),
            inodes: self.inodes.len() as u64,
        };
        match Usage::decode(&stored) {
            Err(e) => self.found(Problem::Damaged, None, e.context()),
            // Some inodes were not counted.
            Ok(_) if self.unreadable.may_have(Space::Meta, b"I") => {}
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
