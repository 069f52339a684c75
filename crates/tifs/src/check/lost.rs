//! Content that is lost, while the attributes of its file are there.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, Problem};
use crate::error::Result;
use crate::kv::Space;
use crate::schema::{Entry, InodeNumber, Key, block_of_key};

/// Names by their inodes, with the directories that have them.
type Names = BTreeMap<InodeNumber, (InodeNumber, String)>;

impl Check<'_> {
    /// Notes blocks whose content the store has lost, and returns which they are.
    pub(super) fn lost_blocks(&mut self, keys: &[Vec<u8>]) -> Result<Vec<bool>> {
        let lost = self.snapshot.lost(Space::Data, keys)?;
        for (key, lost) in keys.iter().zip(&lost) {
            if let (Some(lost), Some((number, block))) = (lost, block_of_key(key)) {
                let detail = format!("block {block}: {lost}");
                self.found(Problem::Lost, Some(number), detail);
            }
        }
        Ok(lost.iter().map(Option::is_some).collect())
    }

    /// Adds the names of files to the findings about lost content.
    ///
    /// Cost: reads all names once for each directory on the longest way to the root, if there are
    /// such findings.
    pub(super) fn name_lost(&mut self) -> Result<()> {
        let findings = self.report.findings.iter();
        let of_lost = findings.filter(|finding| finding.problem == Problem::Lost);
        let mut wanted: BTreeSet<InodeNumber> = { of_lost }
            .filter_map(|of| of.inode.map(InodeNumber))
            .collect();
        let mut names = Names::new();
        while !wanted.is_empty() {
            let before = names.len();
            self.each(Space::Meta, b"E", false, |_, page| {
                for (key, value) in page {
                    if let (Ok(entry), Some(directory)) = (Entry::decode(value), Key::inode_of(key))
                        && let Some(name) = key.get(9..)
                        && wanted.contains(&entry.inode)
                    {
                        let name = name.escape_ascii().to_string();
                        names.entry(entry.inode).or_insert((directory, name));
                    }
                }
                Ok(())
            })?;
            if names.len() == before {
                break;
            }
            let directories = wanted.iter().filter_map(|of| names.get(of).map(|of| of.0));
            let is_new = |of: &InodeNumber| *of != InodeNumber::ROOT && !names.contains_key(of);
            wanted = directories.filter(is_new).collect();
        }
        let findings = self.report.findings.iter_mut();
        for finding in findings.filter(|finding| finding.problem == Problem::Lost) {
            if let Some(path) = finding.inode.and_then(|of| path(&names, InodeNumber(of))) {
                finding.detail = format!("{path}, {}", finding.detail);
            }
        }
        Ok(())
    }
}

/// The path of an inode, if it has a name.
fn path(names: &Names, of: InodeNumber) -> Option<String> {
    let (mut directory, mut path) = names.get(&of).map(|(of, name)| (*of, name.clone()))?;
    let mut steps = names.len();
    while let Some((above, name)) = names.get(&directory).filter(|_| steps > 0) {
        (directory, path) = (*above, format!("{name}/{path}"));
        steps -= 1;
    }
    Some(format!("/{path}"))
}
