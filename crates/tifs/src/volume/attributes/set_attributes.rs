//! Changes of attributes: permissions, owners, times, size.

use rustix::io::Errno;

use crate::error::Result;
use crate::file_system::{Attributes, Caller, Changes, NewTime, SIZE_MAX};
use crate::schema::{FileKind, Inode, InodeNumber};
use crate::volume::content::access::drop_privileges;
use crate::volume::state::change::Change;
use crate::volume::state::volume::Volume;

impl Volume {
    pub(in crate::volume) fn set_attributes(
        &self,
        caller: &Caller,
        number: InodeNumber,
        changes: &Changes,
    ) -> Result<Attributes> {
        if let Some(size) = changes.size {
            if size > SIZE_MAX {
                return Err(Errno::FBIG.into());
            }
            self.make_room_to_cut(size..size)?;
        }
        let _lock = self.locks.exclusive(&[number])?;
        if let Some(size) = changes.size {
            self.prepare_to_grow(number, size)?;
        }
        let attributes = self.change(|change| {
            let mut inode = change.inode(number)?;
            change.apply(caller, number, &mut inode, changes)?;
            // After each removal of a name the kernel says which times it has for the inode. If
            // that was the last name, nobody will ever ask for them again.
            if !(inode.links == 0 && changes.are_kept_by_kernel()) {
                change.put_inode(number, &inode)?;
            }
            Ok(Attributes { number, inode })
        })?;
        self.queue_truncation(&attributes);
        Ok(attributes)
    }
}

impl Change<'_> {
    fn apply(
        &mut self,
        caller: &Caller,
        number: InodeNumber,
        inode: &mut Inode,
        changes: &Changes,
    ) -> Result<()> {
        let (now, before) = (self.now, *inode);
        if let Some(size) = changes.size {
            match inode.kind {
                FileKind::File => self.resize(number, inode, size)?,
                FileKind::Directory => return Err(Errno::ISDIR.into()),
                _ => return Err(Errno::INVAL.into()),
            }
            if size != before.size {
                inode.modified = now;
            }
            if caller.uid != 0 {
                drop_privileges(inode);
            }
        }
        if changes.change_owner() {
            inode.uid = changes.uid.unwrap_or(inode.uid);
            inode.gid = changes.gid.unwrap_or(inode.gid);
            if inode.kind != FileKind::Directory {
                drop_privileges(inode);
                // Others than the owner may ask to keep both IDs only if that drops no privileges.
                // Where a file system asks for no permissions, Linux checks that by itself
                // (`notify_change`, `setattr_prepare`); here it does not. Before a write to a file
                // it asks without a time.
                let may_change = caller.uid == 0 || caller.uid == before.uid;
                let is_write = inode.kind == FileKind::File && changes.changed.is_none();
                if inode.permissions != before.permissions && !may_change && !is_write {
                    return Err(Errno::PERM.into());
                }
            }
        }
        if let Some(permissions) = changes.permissions {
            inode.permissions = permissions & 0o7777;
            if inode.has_attributes {
                self.change_acl(number, inode.permissions)?;
            }
        }
        let time = |new| match new {
            NewTime::Now => now,
            NewTime::At(time) => time,
        };
        inode.accessed = changes.accessed.map_or(inode.accessed, time);
        inode.modified = changes.modified.map_or(inode.modified, time);
        // The kernel keeps times in its cache. It sends those of a truncation that changes the
        // size; with one to the same size it shows the old times, so they are kept here, too.
        let same_size = Changes {
            size: Some(before.size),
            ..Changes::default()
        };
        if *changes != same_size || inode.permissions != before.permissions {
            inode.changed = changes.changed.unwrap_or(now);
        }
        Ok(())
    }
}
