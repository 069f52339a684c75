//! Access control lists of POSIX, as extended attributes.
//!
//! The kernel checks permissions by the lists that it reads. The file system keeps list and
//! permissions equal about owner, mask and others, and derives the list of a new inode from the
//! default list of its directory (acl(5), "Object creation and default ACLs").
//!
//! The stored form is the kernel's (`linux/posix_acl_xattr.h`): version 2, then for each entry a
//! tag, permissions and an ID, all little-endian.

use bytes::{Buf, Bytes};
use rustix::io::Errno;

use crate::error::Result;
use crate::schema::{FileKind, Inode, InodeNumber, Key, content_of, with_format};
use crate::volume::state::change::Change;

/// The attribute that has the list of a file.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute that has the list for files created in a directory.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;

mod tag {
    pub(super) const OWNER: u16 = 0x01;
    pub(super) const USER: u16 = 0x02;
    pub(super) const OWNING_GROUP: u16 = 0x04;
    pub(super) const GROUP: u16 = 0x08;
    pub(super) const MASK: u16 = 0x10;
    pub(super) const OTHER: u16 = 0x20;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AclEntry {
    tag: u16,
    permissions: u16,
    id: u32,
}

/// A list with one owner, one owning group, others, and a mask if there are named users or groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::volume) struct Acl(Vec<AclEntry>);

impl Acl {
    /// A list as the kernel gives it.
    ///
    /// # Errors
    /// `EINVAL` if it is none.
    pub(in crate::volume) fn decode(mut value: &[u8]) -> Result<Acl> {
        let invalid = |_| Errno::INVAL;
        if value.try_get_u32_le().map_err(invalid)? != VERSION || !value.len().is_multiple_of(8) {
            return Err(Errno::INVAL.into());
        }
        let mut entries = Vec::with_capacity(value.len() / 8);
        while value.has_remaining() {
            entries.push(AclEntry {
                tag: value.try_get_u16_le().map_err(invalid)?,
                permissions: value.try_get_u16_le().map_err(invalid)?,
                id: value.try_get_u32_le().map_err(invalid)?,
            });
        }
        let acl = Acl(entries);
        let count = |tag| acl.0.iter().filter(|entry| entry.tag == tag).count();
        let named = count(tag::USER) + count(tag::GROUP);
        let known = [tag::OWNER, tag::OWNING_GROUP, tag::OTHER, tag::MASK];
        let total = named + known.map(count).iter().sum::<usize>();
        let valid = total == acl.0.len()
            && acl.0.iter().all(|entry| entry.permissions <= 7)
            && known[..3].iter().all(|tag| count(*tag) == 1)
            && (count(tag::MASK) == 1 || (named == 0 && count(tag::MASK) == 0));
        if valid {
            Ok(acl)
        } else {
            Err(Errno::INVAL.into())
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            value.extend_from_slice(&entry.tag.to_le_bytes());
            value.extend_from_slice(&entry.permissions.to_le_bytes());
            value.extend_from_slice(&entry.id.to_le_bytes());
        }
        value
    }

    /// Whether permissions alone can say the same.
    pub(in crate::volume) fn is_trivial(&self) -> bool {
        self.0.len() == 3
    }

    /// The entry that the permissions of the group mirror: the mask, if there is one.
    fn group_tag(&self) -> u16 {
        let has_mask = self.0.iter().any(|entry| entry.tag == tag::MASK);
        if has_mask {
            tag::MASK
        } else {
            tag::OWNING_GROUP
        }
    }

    /// The lower nine bits of the permissions equal to owner, mask and others.
    pub(in crate::volume) fn permissions(&self) -> u32 {
        let group = self.group_tag();
        let of = |tag| {
            let entry = self.0.iter().find(|entry| entry.tag == tag);
            entry.map_or(0, |entry| u32::from(entry.permissions))
        };
        of(tag::OWNER) << 6 | of(group) << 3 | of(tag::OTHER)
    }

    /// Sets owner, mask and others by permissions.
    fn set_permissions(&mut self, permissions: u32) {
        let group = self.group_tag();
        for entry in &mut self.0 {
            let shift = match entry.tag {
                tag::OWNER => 6,
                tag::OTHER => 0,
                tag if tag == group => 3,
                _ => continue,
            };
            entry.permissions = (permissions >> shift & 7) as u16;
        }
    }
}

/// The permissions of a stored list. `EINVAL` if it is none.
pub(crate) fn permissions_of(value: &[u8]) -> Result<u32> {
    Acl::decode(value).map(|acl| acl.permissions())
}

/// The permissions and lists that a new inode inherits from its directory.
pub(in crate::volume) struct Inherited {
    pub(in crate::volume) permissions: u32,
    access: Option<Acl>,
    default: Option<Bytes>,
}

impl Inherited {
    /// Only permissions.
    pub(in crate::volume) fn none(permissions: u32) -> Self {
        Inherited {
            permissions,
            access: None,
            default: None,
        }
    }

    /// Whether there is a list to be stored.
    pub(in crate::volume) fn has_acl(&self) -> bool {
        self.access.is_some() || self.default.is_some()
    }
}

impl Change<'_> {
    pub(in crate::volume) fn inherit_acl(
        &mut self,
        (directory, parent): (InodeNumber, &Inode),
        kind: FileKind,
        permissions: u32,
        umask: u32,
    ) -> Result<Inherited> {
        let default = match parent.has_attributes {
            true => self.get(Key::Attribute(directory, DEFAULT))?,
            false => None,
        };
        let Some(default) = default else {
            return Ok(Inherited::none(permissions & !umask));
        };
        let mut access = Acl::decode(&content_of(&default)?)?;
        let granted = permissions & access.permissions();
        access.set_permissions(granted);
        Ok(Inherited {
            permissions: permissions & !0o777 | granted,
            access: (!access.is_trivial()).then_some(access),
            default: (kind == FileKind::Directory).then_some(default),
        })
    }

    pub(in crate::volume) fn put_acls(
        &mut self,
        number: InodeNumber,
        inherited: &Inherited,
    ) -> Result<()> {
        if let Some(access) = &inherited.access {
            let value = with_format(&access.encode());
            self.put(Key::Attribute(number, ACCESS), &value)?;
        }
        if let Some(default) = &inherited.default {
            self.put(Key::Attribute(number, DEFAULT), default)?;
        }
        Ok(())
    }

    /// Changes the list of an inode, if it has one, to its new permissions.
    pub(in crate::volume) fn change_acl(
        &mut self,
        number: InodeNumber,
        permissions: u32,
    ) -> Result<()> {
        let key = Key::Attribute(number, ACCESS);
        if let Some(value) = self.get(key)? {
            let mut acl = Acl::decode(&content_of(&value)?)?;
            acl.set_permissions(permissions);
            self.put(key, &with_format(&acl.encode()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    fn acl(entries: &[(u16, u16)]) -> Vec<u8> {
        let entries = entries.iter().map(|&(tag, permissions)| AclEntry {
            tag,
            permissions,
            id: u32::MAX,
        });
        Acl(entries.collect()).encode()
    }

    #[test]
    fn permissions_follow_the_mask_and_the_mask_follows_permissions() {
        let value = acl(&[(1, 7), (2, 5), (4, 6), (0x10, 4), (0x20, 1)]);
        let mut list = Acl::decode(&value).unwrap();
        assert_eq!(list.permissions(), 0o741);
        list.set_permissions(0o620);
        assert_eq!(list.permissions(), 0o620);
        // The owning group keeps its permissions.
        assert_eq!(list.0[2].permissions, 6);
        assert_eq!(Acl::decode(&list.encode()).unwrap(), list);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let good = acl(&[(1, 7), (4, 6), (0x20, 1)]);
        assert!(Acl::decode(&good).unwrap().is_trivial());
        for bad in [
            &good[..3],
            &good[..good.len() - 1],
            &acl(&[(1, 7), (4, 6)])[..],
            &acl(&[(1, 7), (1, 7), (4, 6), (0x20, 1)])[..],
            &acl(&[(1, 9), (4, 6), (0x20, 1)])[..],
            // A named user without a mask.
            &acl(&[(1, 7), (2, 7), (4, 6), (0x20, 1)])[..],
            &acl(&[(1, 7), (4, 6), (0x20, 1), (0x40, 1)])[..],
        ] {
            assert_eq!(Acl::decode(bad).unwrap_err().errno(), Errno::INVAL);
        }
    }
}
