//! Listing directories, in the order of names, from any [place](crate::volume::state::places) on.

use bytes::Bytes;
use rustix::io::Errno;
use titan::invariant;

use crate::error::{Error, Result};
use crate::file_system::{Attributes, ListedEntry};
use crate::kv::{Scan, Space};
use crate::schema::{Entry, FileKind, Inode, InodeNumber, Key, name_of_entry};
use crate::volume::state::places::{AFTER_PARENT, AFTER_SELF};
use crate::volume::state::volume::Volume;

/// Number of names that are read at first: about as many as the kernel's smallest buffer takes, or
/// their attributes. Then more at a time.
const FIRST_PAGE: usize = 64;

/// The most names that are read at once.
const PAGE: usize = 1024;

/// Attributes read at once: about as many as the kernel's buffer takes.
const ATTRIBUTES_PAGE: usize = 32;

/// Entries of a directory from a place on, in pages.
struct Listing {
    directory: InodeNumber,
    /// The key from which the next page is read.
    begin: Vec<u8>,
    page: usize,
    complete: bool,
}

impl Volume {
    pub(in crate::volume) fn list(
        &self,
        directory: InodeNumber,
        from: u64,
        entry: &mut dyn FnMut(&ListedEntry) -> bool,
    ) -> Result<()> {
        let _lock = self.locks.shared(directory);
        let mut listing = self.begin_listing(directory, from, FIRST_PAGE)?;
        let mut last = None;
        let mut entries = self.dots(directory, from)?;
        loop {
            for listed in entries {
                if !entry(&listed) {
                    self.end_listing(directory, last);
                    return Ok(());
                }
                last = Some(listed.name);
            }
            if listing.complete {
                self.end_listing(directory, last);
                return Ok(());
            }
            entries = self.next_page(&mut listing)?;
            listing.page = (listing.page * 2).min(PAGE);
        }
    }

    pub(in crate::volume) fn list_with_attributes(
        &self,
        directory: InodeNumber,
        from: u64,
        entry: &mut dyn FnMut(&ListedEntry, &Attributes) -> bool,
    ) -> Result<()> {
        // While it is locked, names stay, so their inodes exist.
        let _lock = self.locks.shared(directory);
        let mut listing = self.begin_listing(directory, from, ATTRIBUTES_PAGE)?;
        let mut last = None;
        let mut entries = self.dots(directory, from)?;
        loop {
            let attributes = match self.inodes(&entries) {
                // The caller has references to the entries that it got, so it must get these. The
                // next call fails.
                Err(_) if is_given(last.as_ref()) => {
                    self.end_listing(directory, last);
                    return Ok(());
                }
                attributes => attributes?,
            };
            for (listed, attributes) in entries.into_iter().zip(attributes) {
                // The target of a damaged entry is not shown with attributes.
                let Some(attributes) = attributes else {
                    continue;
                };
                if !entry(&listed, &attributes) {
                    self.end_listing(directory, last);
                    return Ok(());
                }
                if !is_dot(&listed.name) {
                    self.references.add(attributes.number);
                }
                last = Some(listed.name);
            }
            if listing.complete {
                self.end_listing(directory, last);
                return Ok(());
            }
            entries = match self.next_page(&mut listing) {
                Err(_) if is_given(last.as_ref()) => {
                    self.end_listing(directory, last);
                    return Ok(());
                }
                entries => entries?,
            };
        }
    }

    /// Begins a listing at a place.
    ///
    /// # Errors
    /// `ENOTDIR`; `EINVAL` if this is no place of the directory.
    ///
    /// Cost: a scan of the directory, if the name of the place is not remembered.
    fn begin_listing(&self, directory: InodeNumber, from: u64, page: usize) -> Result<Listing> {
        let mut listing = Listing {
            directory,
            begin: Key::Entry(directory, b"").encode(),
            page,
            complete: false,
        };
        if from <= AFTER_PARENT {
            return Ok(listing);
        }
        let name = match self.places.name(directory, from) {
            Some(name) => name,
            None => self.name_of_place(directory, from)?,
        };
        listing.go_on_after(&name);
        Ok(listing)
    }

    /// The name of a place, by a look at all names.
    fn name_of_place(&self, directory: InodeNumber, place: u64) -> Result<Bytes> {
        let prefix = Key::Entry(directory, b"").encode();
        let mut scan = Scan::prefix(Space::Meta, &prefix).keys_only().limit(PAGE);
        loop {
            let page = self.kv.scan(&scan)?;
            for (key, _) in &page {
                let name = name_of_entry(key, &prefix);
                if self.places.after(name) == place {
                    return Ok(key.slice_ref(name));
                }
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE => scan.begin = [last, &[0][..]].concat(),
                _ => return Err(Error::new(Errno::INVAL, "no place of this directory")),
            }
        }
    }

    /// The entries that are listed before all names.
    fn dots(&self, directory: InodeNumber, from: u64) -> Result<Vec<ListedEntry>> {
        if from >= AFTER_PARENT {
            return Ok(Vec::new());
        }
        let inode = self.stored(directory)?.inode;
        if inode.kind != FileKind::Directory {
            return Err(Errno::NOTDIR.into());
        }
        let dot = |name, inode, next| ListedEntry {
            name: Bytes::from_static(name),
            inode,
            kind: FileKind::Directory,
            next,
        };
        let dots = [
            dot(b".", directory, AFTER_SELF),
            dot(b"..", inode.parent, AFTER_PARENT),
        ];
        Ok(dots.into_iter().filter(|dot| dot.next > from).collect())
    }

    fn next_page(&self, listing: &mut Listing) -> Result<Vec<ListedEntry>> {
        let prefix = Key::Entry(listing.directory, b"").encode();
        let mut scan = Scan::prefix(Space::Meta, &prefix).limit(listing.page);
        scan.begin.clone_from(&listing.begin);
        let page = self.kv.scan(&scan)?;
        listing.complete = page.len() < listing.page;
        let entry = |(key, value): &(Bytes, Bytes)| {
            let entry = Entry::decode(value)?;
            let name = key.slice_ref(name_of_entry(key, &prefix));
            Ok(ListedEntry {
                next: self.places.after(&name),
                name,
                inode: entry.inode,
                kind: entry.kind,
            })
        };
        let entries: Vec<ListedEntry> = page.iter().map(entry).collect::<Result<_>>()?;
        invariant!(
            entries.is_sorted_by(|a, b| a.name < b.name),
            "the names of directory {} are in no order",
            listing.directory
        );
        if let Some(last) = entries.last() {
            listing.go_on_after(&last.name);
        }
        Ok(entries)
    }

    /// Remembers the last entry that a caller took, after which it will go on.
    fn end_listing(&self, directory: InodeNumber, last: Option<Bytes>) {
        if let Some(name) = last.filter(|name| !is_dot(name)) {
            self.places.ended(directory, &name);
        }
    }

    /// The attributes of entries, where there are any.
    fn inodes(&self, entries: &[ListedEntry]) -> Result<Vec<Option<Attributes>>> {
        let key = |entry: &ListedEntry| Key::Inode(entry.inode).encode();
        let keys: Vec<_> = entries.iter().map(key).collect();
        let inodes = self.kv.multi_get(Space::Meta, &keys)?;
        let attributes = |(listed, inode): (&ListedEntry, Option<Bytes>)| {
            let Some(inode) = inode else { return Ok(None) };
            Ok(Some(Attributes {
                number: listed.inode,
                inode: Inode::decode(&inode)?,
            }))
        };
        entries.iter().zip(inodes).map(attributes).collect()
    }
}

impl Listing {
    fn go_on_after(&mut self, name: &[u8]) {
        self.begin = Key::Entry(self.directory, name).encode();
        self.begin.push(0);
    }
}

/// Whether a listing has given something that must arrive.
fn is_given(last: Option<&Bytes>) -> bool {
    let failed = mutant!(failed_listing_refers);
    last.is_some() && !failed
}

fn is_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}
