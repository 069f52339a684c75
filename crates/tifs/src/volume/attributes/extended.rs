//! Extended attributes: one key each.

use bytes::Bytes;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::file_system::{Existing, NAME_MAX};
use crate::kv::{Scan, Space};
use crate::schema::{FileKind, InodeNumber, Key, content_of, name_of_entry, with_format};
use crate::volume::attributes::acl::{ACCESS, Acl, DEFAULT};
use crate::volume::state::change::Change;
use crate::volume::state::volume::Volume;

/// The longest value, in bytes: the kernel passes no longer one.
const VALUE_MAX: usize = 64 << 10;

/// The longest list of names, in bytes: the kernel passes no longer one on.
const LIST_MAX: usize = 64 << 10;

/// The prefixes of names, besides those of ACLs.
const NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

impl Volume {
    pub(in crate::volume) fn set_extended_attribute(
        &self,
        number: InodeNumber,
        name: &[u8],
        value: &[u8],
        existing: Existing,
    ) -> Result<()> {
        check_name(name)?;
        if value.len() > VALUE_MAX {
            return Err(Errno::TOOBIG.into());
        }
        let acl = (name == ACCESS || name == DEFAULT)
            .then(|| Acl::decode(value))
            .transpose()?;
        self.make_room(value.len() as u64)?;
        let _lock = self.locks.exclusive(&[number])?;
        self.change(|change| {
            let mut inode = change.inode(number)?;
            let key = Key::Attribute(number, name);
            let exists = change.get(key)?.is_some();
            match existing {
                Existing::MustNotExist if exists => return Err(Errno::EXIST.into()),
                Existing::MustExist if !exists => return Err(Errno::NODATA.into()),
                _ => {}
            }
            if !exists {
                change.has_room_in_list(number, name)?;
            }
            if name == DEFAULT && inode.kind != FileKind::Directory {
                return Err(Errno::ACCESS.into());
            }
            let mut is_needed = true;
            if let Some(acl) = acl.as_ref().filter(|_| name == ACCESS) {
                inode.permissions = inode.permissions & !0o777 | acl.permissions();
                is_needed = !acl.is_trivial();
            }
            if is_needed {
                change.put(key, &with_format(value))?;
                inode.has_attributes = true;
            } else if exists {
                change.delete(key)?;
            }
            inode.changed = change.now;
            change.put_inode(number, &inode)
        })
    }

    pub(in crate::volume) fn extended_attribute(
        &self,
        number: InodeNumber,
        name: &[u8],
    ) -> Result<Bytes> {
        if let Some(described) = self.described(number, name) {
            return described;
        }
        check_name(name)?;
        let value = self
            .kv
            .get(Space::Meta, &Key::Attribute(number, name).encode())?;
        content_of(&value.ok_or(Errno::NODATA)?)
    }

    pub(in crate::volume) fn extended_attributes(&self, number: InodeNumber) -> Result<Vec<u8>> {
        let prefix = Key::Attribute(number, b"").encode();
        let found = self
            .kv
            .scan(&Scan::prefix(Space::Meta, &prefix).keys_only())?;
        let mut names = Vec::new();
        for (key, _) in &found {
            names.extend_from_slice(name_of_entry(key, &prefix));
            names.push(0);
        }
        Ok(names)
    }

    pub(in crate::volume) fn remove_extended_attribute(
        &self,
        number: InodeNumber,
        name: &[u8],
    ) -> Result<()> {
        check_name(name)?;
        let _lock = self.locks.exclusive(&[number])?;
        self.change(|change| {
            let mut inode = change.inode(number)?;
            let key = Key::Attribute(number, name);
            if change.get(key)?.is_none() {
                // Without a list there is nothing to remove, and that is no error.
                return match name {
                    ACCESS | DEFAULT => Ok(()),
                    _ => Err(Errno::NODATA.into()),
                };
            }
            change.delete(key)?;
            inode.changed = change.now;
            change.put_inode(number, &inode)
        })
    }
}

impl Change<'_> {
    /// # Errors
    /// `ENOSPC` if the list of all names would be longer than `listxattr` can return.
    fn has_room_in_list(&mut self, number: InodeNumber, name: &[u8]) -> Result<()> {
        let prefix = Key::Attribute(number, b"").encode();
        let scan = Scan::prefix(Space::Meta, &prefix).keys_only();
        let found = self.transaction.scan(&scan)?;
        let names = found.iter().map(|(key, _)| name_of_entry(key, &prefix));
        let list: usize = names.chain([name]).map(|name| name.len() + 1).sum();
        if list > LIST_MAX {
            let what = "the names of the extended attributes would be longer than a list of them";
            return Err(Error::new(Errno::NOSPC, what));
        }
        Ok(())
    }
}

fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(Errno::RANGE.into());
    }
    if name == ACCESS || name == DEFAULT {
        return Ok(());
    }
    let mut rest = NAMESPACES
        .iter()
        .filter_map(|space| name.strip_prefix(*space));
    match rest.next() {
        None => Err(Errno::OPNOTSUPP.into()),
        Some(b"") => Err(Errno::INVAL.into()),
        Some(_) => Ok(()),
    }
}
