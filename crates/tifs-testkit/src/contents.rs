//! Everything that a volume has, as text: of a store, and of the model.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::Hash;
use std::sync::Arc;

use rustix::io::Errno;
use tifs::Result;
use tifs::file_system::{FileSystem, Seek};
use tifs::kv::Kv;
use tifs::schema::{FileKind, Inode, InodeNumber};
use tifs::volume::{AccessTime, Volume, VolumeOptions};

use crate::calls::list;
use crate::model::{Content, Id, Model, comparable};
use crate::ops::Raw;

/// Bytes read at once.
const PIECE: u64 = 1 << 20;

/// All names with what they lead to. Two are equal if no program could see a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// A line for each name, in the order of a walk.
    pub lines: Vec<String>,
    /// Units of 512 bytes of all inodes; 0 for the model, which does not know them.
    pub units: u64,
    /// The number of inodes with names.
    pub inodes: u64,
    /// The regular files of a store, by name.
    pub files: Vec<InodeNumber>,
}

impl Contents {
    /// The present content of a store.
    pub fn of_store(kv: Arc<dyn Kv>) -> Result<Contents> {
        let volume = view(kv)?;
        let mut walk = Walk::default();
        let root = volume.attributes(InodeNumber::ROOT)?.inode;
        walk.visit_stored(&volume, "", InodeNumber::ROOT, root)?;
        walk.contents.inodes = walk.met.len() as u64;
        Ok(walk.contents)
    }

    /// The expected content of a store.
    pub fn of_model(model: &Model) -> Contents {
        let mut walk = Walk::default();
        walk.visit_model(model, "", Id::ROOT);
        walk.contents.inodes = walk.met.len() as u64;
        walk.contents
    }

    /// The first lines that are different.
    pub fn difference(&self, expected: &Contents) -> Option<String> {
        if self.lines == expected.lines {
            return None;
        }
        let only = |these: &Contents, those: &Contents| {
            let lines = these
                .lines
                .iter()
                .filter(|line| !those.lines.contains(line));
            lines
                .take(5)
                .fold(String::new(), |text, line| text + "\n  " + line)
        };
        let (found, missing) = (only(self, expected), only(expected, self));
        Some(format!("found:{found}\nexpected:{missing}"))
    }
}

/// A volume that shows what a store has, and changes nothing.
pub fn view(kv: Arc<dyn Kv>) -> Result<Volume> {
    let options = VolumeOptions {
        read_only: true,
        access_time: AccessTime::Never,
        ..VolumeOptions::default()
    };
    Volume::open(kv, options)
}

/// A walk through a tree. Inodes are known by the order in which they are met.
struct Walk<N> {
    contents: Contents,
    met: HashMap<N, usize>,
}

impl<N> Default for Walk<N> {
    fn default() -> Self {
        Walk {
            contents: Contents::default(),
            met: HashMap::new(),
        }
    }
}

impl<N: Eq + Hash> Walk<N> {
    /// Adds a line.
    fn add(&mut self, path: &str, inode: N, attributes: &Inode, rest: impl FnOnce() -> String) {
        let next = self.met.len();
        let index = *self.met.entry(inode).or_insert(next);
        let shown = show(attributes);
        let rest = rest();
        self.contents
            .lines
            .push(format!("{path} #{index} {shown}{rest}"));
    }
}

impl Walk<InodeNumber> {
    fn visit_stored(
        &mut self,
        volume: &Volume,
        path: &str,
        number: InodeNumber,
        inode: Inode,
    ) -> Result<()> {
        if !self.met.contains_key(&number) {
            self.contents.units += inode.blocks;
        }
        let mut rest = String::new();
        match inode.kind {
            FileKind::File => {
                self.contents.files.push(number);
                let fingerprint = content(volume, number, inode.size)?.fingerprint();
                let _ = write!(rest, " content {fingerprint:016x}");
            }
            FileKind::Symlink => {
                let target = Raw(volume.read_link(number)?.to_vec());
                let _ = write!(rest, " target {target:?}");
            }
            _ => {}
        }
        for name in volume.extended_attributes(number)?.split(|byte| *byte == 0) {
            if !name.is_empty() {
                let value = volume.extended_attribute(number, name)?;
                rest += &show_extended(name, &value);
            }
        }
        self.add(path, number, &comparable(inode), || rest);
        if inode.kind == FileKind::Directory {
            for entry in list(volume, number, false, u32::MAX)?.into_iter().skip(2) {
                let path = format!("{path}/{}", entry.name.escape_ascii());
                let inode = volume.attributes(entry.inode)?.inode;
                self.visit_stored(volume, &path, entry.inode, inode)?;
            }
        }
        Ok(())
    }
}

impl Walk<Id> {
    fn visit_model(&mut self, model: &Model, path: &str, id: Id) {
        let node = model.by_id(id).unwrap();
        let mut rest = String::new();
        match node.kind {
            FileKind::File => {
                let _ = write!(rest, " content {:016x}", node.content.fingerprint());
            }
            FileKind::Symlink => {
                let _ = write!(rest, " target {:?}", Raw(node.target.clone()));
            }
            _ => {}
        }
        for (name, value) in &node.extended {
            rest += &show_extended(name, value);
        }
        self.add(path, id, &node.attributes(), || rest);
        for (name, child) in &node.entries {
            let path = format!("{path}/{}", name.escape_ascii());
            self.visit_model(model, &path, *child);
        }
    }
}

/// The content of a file, read where it has data.
pub fn content(volume: &Volume, file: InodeNumber, size: u64) -> Result<Content> {
    let mut content = Content::default();
    content.resize(size);
    let mut place = 0;
    while place < size {
        place = match volume.seek(file, place, Seek::Data) {
            Err(e) if e.errno() == Errno::NXIO => break,
            found => found?,
        };
        let end = volume.seek(file, place, Seek::Hole)?;
        while place < end {
            let data = volume.read(file, place, PIECE.min(end - place) as usize)?;
            content.write(place, &data);
            place += data.len() as u64;
        }
    }
    Ok(content)
}

fn show(inode: &Inode) -> String {
    let Inode {
        kind,
        permissions,
        uid,
        gid,
        links,
        device,
        size,
        accessed,
        modified,
        changed,
        born,
        ..
    } = inode;
    let times = [accessed, modified, changed, born];
    let times = times.map(|time| format!("{}.{:09}", time.seconds, time.nanoseconds));
    let times = times.join(" ");
    format!(
        "{kind:?} {permissions:04o} {uid}:{gid} links {links} device {device} size {size} {times}"
    )
}

fn show_extended(name: &[u8], value: &[u8]) -> String {
    let mut content = Content::default();
    content.write(0, value);
    let fingerprint = content.fingerprint();
    format!(" {} {fingerprint:016x}", name.escape_ascii())
}
