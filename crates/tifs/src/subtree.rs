//! A directory of a file system, as a file system of its own.
//!
//! Its root has the number of all roots, as the kernel expects; all other inodes keep theirs.
//! Nothing leads out of it: above its root is the root, and numbers of other inodes of the volume
//! are refused.

use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::file_system::{
    Allocate, Attributes, Caller, Capacity, Changes, Existing, FileSystem, Inodes, ListedEntry,
    Rename, Seek, WriteContext, Written, call, calls,
};
use crate::schema::{FileKind, InodeNumber};

/// The directory that is the root.
pub struct Subtree {
    all: Arc<dyn FileSystem>,
    root: InodeNumber,
    above: InodeNumber,
}

impl Subtree {
    /// The directory at `path`, whose parts are separated by slashes. Symbolic links are not
    /// followed.
    ///
    /// Nobody may move the directory for as long as this is used. That is so where it is all that
    /// is mounted of a volume.
    ///
    /// # Errors
    /// `ENOENT` or `ENOTDIR`, with the part of the path that is missing or no directory.
    pub fn new(all: Arc<dyn FileSystem>, path: &[u8]) -> Result<Subtree> {
        let mut root = InodeNumber::ROOT;
        let parts = path.split(|&byte| byte == b'/');
        for name in parts.filter(|name| !name.is_empty() && *name != b".") {
            let text = String::from_utf8_lossy(name);
            let found = all.lookup(root, name).map_err(|e| match e.errno() {
                Errno::NOENT => Error::new(Errno::NOENT, format!("there is no directory {text}")),
                _ => e,
            })?;
            // The reference is kept, so the directory exists.
            root = found.number;
            if found.inode.kind != FileKind::Directory {
                return Err(Error::new(Errno::NOTDIR, format!("{text} is no directory")));
            }
        }
        let above = all.attributes(root)?.inode.parent;
        Ok(Subtree { all, root, above })
    }

    fn inner(&self, number: InodeNumber) -> InodeNumber {
        match number {
            InodeNumber::ROOT => self.root,
            other => other,
        }
    }

    fn outer(&self, number: InodeNumber) -> InodeNumber {
        // The directory above is met only as `..` of the root.
        if number == self.root || number == self.above {
            InodeNumber::ROOT
        } else {
            number
        }
    }

    fn is_root_above(&self, directory: InodeNumber) -> Result<bool> {
        Ok(self.all.attributes(directory)?.inode.parent == self.root)
    }

    /// Makes sure that an inode is in the subtree. The kernel may know its number from another
    /// time, when the whole volume was mounted.
    ///
    /// # Errors
    /// `ESTALE`. A file that also has a name elsewhere, which it got last, counts as being there.
    fn check_within(&self, number: InodeNumber) -> Result<()> {
        let mut ancestor = number;
        while ancestor != self.root {
            let above = self.all.attributes(ancestor)?.inode.parent;
            if above == ancestor {
                return Err(Errno::STALE.into());
            }
            ancestor = above;
        }
        Ok(())
    }

    fn entry_of(&self, entry: &ListedEntry) -> ListedEntry {
        ListedEntry {
            inode: self.outer(entry.inode),
            ..entry.clone()
        }
    }
}

macro_rules! within {
    (lookup $args:tt $result:ty) => {
        call! { lookup $args $result, |self, directory, name| {
            let inner = self.inner(directory);
            match name {
                b"." if directory == InodeNumber::ROOT => self.attributes(directory),
                // The kernel would have a second directory, and refuses an answer with another
                // number.
                b"." if inner == self.root => Err(Errno::STALE.into()),
                // The kernel keeps the root, and asks for it by no name but these.
                b".." if inner == self.root || self.is_root_above(inner)? => {
                    self.attributes(InodeNumber::ROOT)
                }
                b"." | b".." => {
                    self.check_within(inner)?;
                    self.all.lookup(inner, name)
                }
                _ => self.all.lookup(inner, name),
            }
        } }
    };
    (forget $args:tt) => {
        call! { forget $args, |self, inode, references| {
            // The kernel has no counted references to a root.
            if inode != InodeNumber::ROOT {
                self.all.forget(inode, references);
            }
        } }
    };
    (list $args:tt $result:ty) => {
        call! { list $args $result, |self, directory, from, entry| {
            let mut show = |listed: &ListedEntry| entry(&self.entry_of(listed));
            self.all.list(self.inner(directory), from, &mut show)
        } }
    };
    (list_with_attributes $args:tt $result:ty) => {
        call! { list_with_attributes $args $result, |self, directory, from, entry| {
            let mut show = |listed: &ListedEntry, attributes: &Attributes| {
                let attributes = attributes.map_inodes(|number| self.outer(number));
                entry(&self.entry_of(listed), &attributes)
            };
            self.all.list_with_attributes(self.inner(directory), from, &mut show)
        } }
    };
    ($name:ident ($($arg:ident: $type:ty),*) $result:ty) => {
        fn $name(&self $(, $arg: $type)*) -> $result {
            let answer = self.all.$name($($arg.map_inodes(|number| self.inner(number))),*)?;
            Ok(answer.map_inodes(|number| self.outer(number)))
        }
    };
}

macro_rules! implement {
    ($($(#[$_:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        impl FileSystem for Subtree {
            $(within! { $name ($($arg: $type),*) $($result)? })*
        }
    };
}

calls!(implement);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;
    use crate::kv::MemoryKv;
    use crate::volume::{Volume, VolumeOptions};

    const ROOT: InodeNumber = InodeNumber::ROOT;
    const CALLER: Caller = Caller { uid: 0, gid: 0 };

    fn volume() -> Arc<Volume> {
        let kv = Arc::new(MemoryKv::new());
        Volume::make(&*kv, &VolumeOptions::default()).unwrap();
        Arc::new(Volume::open(kv, VolumeOptions::default()).unwrap())
    }

    fn directory(volume: &Volume, parent: InodeNumber, name: &[u8]) -> InodeNumber {
        let made = volume.make_directory(&CALLER, parent, name, 0o755, 0);
        made.unwrap().number
    }

    #[test]
    fn nothing_leads_out_of_a_subtree() {
        let volume = volume();
        let outer = directory(&volume, ROOT, b"outer");
        let inner = directory(&volume, outer, b"inner");
        directory(&volume, inner, b"child");
        let subtree = Subtree::new(Arc::clone(&volume) as _, b"/outer//inner/").unwrap();
        assert_eq!(subtree.attributes(ROOT).unwrap().number, ROOT);
        let child = subtree.lookup(ROOT, b"child").unwrap().number;
        for (listed, above) in [(ROOT, ROOT), (child, ROOT)] {
            let mut entries = Vec::new();
            let mut keep = |entry: &ListedEntry, attributes: &Attributes| {
                assert_eq!(entry.inode, attributes.number);
                entries.push((entry.name.clone(), entry.inode));
                true
            };
            subtree.list_with_attributes(listed, 0, &mut keep).unwrap();
            assert!(entries.contains(&(Bytes::from_static(b"."), listed)));
            assert!(entries.contains(&(Bytes::from_static(b".."), above)));
        }
    }

    #[test]
    fn the_root_of_a_subtree_has_one_number() {
        let volume = volume();
        let inner = directory(&volume, ROOT, b"inner");
        let subtree = Subtree::new(Arc::clone(&volume) as _, b"inner").unwrap();
        assert_eq!(subtree.lookup(ROOT, b".").unwrap().number, ROOT);
        assert_eq!(subtree.lookup(inner, b"..").unwrap().number, ROOT);
        let refused = subtree.lookup(inner, b".").unwrap_err();
        assert_eq!(refused.errno(), Errno::STALE);
    }

    #[test]
    fn a_path_that_leads_to_no_directory_is_refused() {
        let volume = volume();
        let made = volume.make_node(&CALLER, ROOT, b"file", 0o100_644, 0, 0);
        made.unwrap();
        let refused = |path: &[u8]| {
            let result = Subtree::new(Arc::clone(&volume) as _, path);
            result.err().map(|e| e.errno())
        };
        assert_eq!(refused(b"none/below"), Some(Errno::NOENT));
        assert_eq!(refused(b"file"), Some(Errno::NOTDIR));
        assert_eq!(refused(b"/"), None);
    }
}
