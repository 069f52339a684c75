//! Listing directories.
//!
//! A handle keeps the names that it has read, in pages, so that a place in the listing stays a place
//! whatever is created and removed meanwhile. It costs memory for each name until the directory is
//! closed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::io::Errno;

use super::Volume;
use crate::error::{Error, Result};
use crate::file_system::{Attributes, DirectoryHandle, ListedEntry};
use crate::kv::{Scan, Space};
use crate::schema::{Entry, FileKind, Inode, InodeNumber, Key, name_of_entry};

/// How many names are read at once.
const PAGE: usize = 1024;

/// How many attributes are read at once: about as many as the kernel's buffer takes.
const ATTRIBUTES_PAGE: usize = 32;

/// The open directories of a volume.
#[derive(Default)]
pub(super) struct Listings {
    last: AtomicU64,
    open: Mutex<HashMap<DirectoryHandle, Arc<Mutex<Listing>>>>,
}

struct Listing {
    directory: InodeNumber,
    entries: Vec<ListedEntry>,
    complete: bool,
}

impl Listings {
    fn get(&self, handle: DirectoryHandle) -> Result<Arc<Mutex<Listing>>> {
        let listing = self.open.lock().get(&handle).cloned();
        listing.ok_or_else(|| Errno::BADF.into())
    }
}

impl Volume {
    pub(super) fn open_listing(&self, directory: InodeNumber) -> Result<DirectoryHandle> {
        if self.stored(directory)?.inode.kind != FileKind::Directory {
            return Err(Errno::NOTDIR.into());
        }
        let handle = DirectoryHandle(self.listings.last.fetch_add(1, Ordering::Relaxed) + 1);
        let listing = Listing {
            directory,
            entries: Vec::new(),
            complete: false,
        };
        let listing = Arc::new(Mutex::new(listing));
        self.listings.open.lock().insert(handle, listing);
        Ok(handle)
    }

    pub(super) fn close_listing(&self, handle: DirectoryHandle) {
        self.listings.open.lock().remove(&handle);
    }

    pub(super) fn list_names(
        &self,
        handle: DirectoryHandle,
        from: u64,
        entry: &mut dyn FnMut(&ListedEntry) -> bool,
    ) -> Result<()> {
        let listing = self.listings.get(handle)?;
        let mut listing = listing.lock();
        let mut next = self.begin_listing(&mut listing, from)?;
        while self.has_entry(&mut listing, next)? {
            if !entry(&listing.entries[next]) {
                break;
            }
            next += 1;
        }
        Ok(())
    }

    pub(super) fn list_inodes(
        &self,
        handle: DirectoryHandle,
        from: u64,
        entry: &mut dyn FnMut(&ListedEntry, &Attributes) -> bool,
    ) -> Result<()> {
        let listing = self.listings.get(handle)?;
        let mut listing = listing.lock();
        let mut next = self.begin_listing(&mut listing, from)?;
        let _lock = self.locks.shared(listing.directory);
        let mut given = false;
        loop {
            let page = match self.attributes_page(&mut listing, next) {
                // The caller has references to what it got, so it must get that. The next call fails.
                // MUTANT: a listing that fails gives references all the same.
                Err(_)
                    if given
                        && !mutant!(
                            "failed-listing-refers",
                            "-p tifs --test it moods::a_listing"
                        ) =>
                {
                    return Ok(());
                }
                page => page?,
            };
            if page.is_empty() {
                return Ok(());
            }
            let entries = &listing.entries[next..];
            next += page.len();
            for (listed, attributes) in entries.iter().zip(page) {
                // What has been removed since it was read must not be shown with attributes: the
                // kernel would believe that the name exists.
                let Some(attributes) = attributes else {
                    continue;
                };
                if !entry(listed, &attributes) {
                    return Ok(());
                }
                if !is_dot(&listed.name) {
                    self.references.add(attributes.number);
                }
                given = true;
            }
        }
    }

    /// The attributes of some entries from an index on; none at the end.
    fn attributes_page(
        &self,
        listing: &mut Listing,
        next: usize,
    ) -> Result<Vec<Option<Attributes>>> {
        if !self.has_entry(listing, next)? {
            return Ok(Vec::new());
        }
        let end = listing.entries.len().min(next + ATTRIBUTES_PAGE);
        self.inodes(listing.directory, &listing.entries[next..end])
    }

    /// Where a call begins in the entries.
    fn begin_listing(&self, listing: &mut Listing, from: u64) -> Result<usize> {
        if from == 0 {
            let parent = self.stored(listing.directory)?.inode.parent;
            listing.complete = false;
            listing.entries.clear();
            for (name, inode) in [(&b"."[..], listing.directory), (b"..", parent)] {
                listing.add(Bytes::from_static(name), inode, FileKind::Directory);
            }
        }
        let next = usize::try_from(from).unwrap_or(usize::MAX);
        if next > listing.entries.len() {
            return Err(Error::new(Errno::INVAL, "no place of this listing"));
        }
        Ok(next)
    }

    /// Whether there is an entry with this index, reading a page if needed.
    fn has_entry(&self, listing: &mut Listing, index: usize) -> Result<bool> {
        if index >= listing.entries.len() && !listing.complete {
            let prefix = Key::Entry(listing.directory, b"").encode();
            let mut scan = Scan::prefix(Space::Meta, &prefix).limit(PAGE);
            if let Some(last) = listing.entries.last().filter(|last| !is_dot(&last.name)) {
                scan.begin = [&prefix, &last.name[..], &[0]].concat();
            }
            let page = self.kv.scan(&scan)?;
            listing.complete = page.len() < PAGE;
            for (key, value) in &page {
                let entry = Entry::decode(value)?;
                let name = key.slice_ref(name_of_entry(key, &prefix));
                listing.add(name, entry.inode, entry.kind);
            }
        }
        Ok(index < listing.entries.len())
    }

    /// The attributes of entries that still exist. The directory does not change meanwhile.
    fn inodes(
        &self,
        directory: InodeNumber,
        entries: &[ListedEntry],
    ) -> Result<Vec<Option<Attributes>>> {
        let entry_key = |entry: &ListedEntry| Key::Entry(directory, &entry.name).encode();
        let inode_key = |entry: &ListedEntry| Key::Inode(entry.inode).encode();
        let keys: Vec<_> = entries.iter().map(entry_key).collect();
        let names = self.kv.multi_get(Space::Meta, &keys)?;
        let keys: Vec<_> = entries.iter().map(inode_key).collect();
        let inodes = self.kv.multi_get(Space::Meta, &keys)?;
        let attributes =
            |((listed, name), inode): ((&ListedEntry, Option<Bytes>), Option<Bytes>)| {
                let leads_here = match name {
                    Some(name) => Entry::decode(&name)?.inode == listed.inode,
                    None => is_dot(&listed.name),
                };
                let Some(inode) = inode.filter(|_| leads_here) else {
                    return Ok(None);
                };
                Ok(Some(Attributes {
                    number: listed.inode,
                    inode: Inode::decode(&inode)?,
                }))
            };
        entries
            .iter()
            .zip(names)
            .zip(inodes)
            .map(attributes)
            .collect()
    }
}

impl Listing {
    fn add(&mut self, name: Bytes, inode: InodeNumber, kind: FileKind) {
        let next = self.entries.len() as u64 + 1;
        self.entries.push(ListedEntry {
            name,
            inode,
            kind,
            next,
        });
    }
}

fn is_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}
