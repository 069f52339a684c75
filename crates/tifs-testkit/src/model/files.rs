//! Operations on content and attributes.

use rustix::io::Errno;
use tifs::file_system::{Allocate, Existing, SIZE_MAX, Seek};
use tifs::schema::{FileKind, Time};

use super::{Expected, Id, Model, Node, Outcome, check_extended_name};
use crate::ops::{Fill, Mode, Raw, Slot, When};

/// Bytes that one call copies.
const COPY_MAX: u64 = 8 << 20;

/// The longest extended attribute.
const VALUE_MAX: u64 = 64 << 10;

/// The reported space of the device.
const DEVICE: u64 = 1 << 40;

impl Node {
    /// Set-user-ID and set-group-ID end with a change by somebody.
    fn drop_privileges(&mut self) {
        self.permissions &= !0o4000;
        if self.permissions & 0o0010 != 0 {
            self.permissions &= !0o2000;
        }
    }
}

impl Model {
    fn of_slot(&mut self, slot: Slot) -> &mut Node {
        let id = self.slots[&slot];
        self.get(id)
    }

    pub(super) fn write(&mut self, file: Slot, offset: u64, data: Fill) -> Expected {
        if data.length == 0 {
            return Ok(Outcome::Done);
        }
        if offset
            .checked_add(data.length)
            .is_none_or(|end| end > SIZE_MAX)
        {
            return Err(Errno::FBIG);
        }
        let (now, by) = (self.now, self.by);
        let node = self.of_slot(file);
        if node.kind != FileKind::File {
            return Err(Errno::INVAL);
        }
        node.content.write(offset, &data.bytes());
        if by != 0 {
            node.drop_privileges();
        }
        (node.modified, node.changed) = (now, now);
        Ok(Outcome::Done)
    }

    pub(super) fn read(&mut self, file: Slot, offset: u64, length: u64) -> Expected {
        let now = self.now;
        let node = self.of_slot(file);
        let data = node.content.read(offset, length);
        let day = 24 * 60 * 60;
        if node.accessed <= node.modified.max(node.changed)
            || now.seconds - node.accessed.seconds >= day
        {
            node.accessed = now;
        }
        Ok(Outcome::Bytes(data))
    }

    pub(super) fn set(
        &mut self,
        of: Id,
        (permissions, uid, gid): (Option<Mode>, Option<u32>, Option<u32>),
        size: Option<u64>,
        (accessed, modified): (Option<When>, Option<When>),
    ) -> Expected {
        let (now, by) = (self.now, self.by);
        let given = |time: Option<When>| time.filter(|time| *time != When::Omit);
        let (accessed, modified) = (given(accessed), given(modified));
        // Keeping both the user and the group is a change of owner, too, and arrives as one of
        // nothing.
        let nothing = permissions.is_none() && size.is_none() && accessed.or(modified).is_none();
        let others =
            permissions.is_some() || uid.or(gid).is_some() || accessed.or(modified).is_some();
        let node = self.get(of);
        let (old_size, old_permissions) = (node.content.size(), node.permissions);
        if let Some(size) = size {
            match node.kind {
                _ if size > SIZE_MAX => return Err(Errno::FBIG),
                FileKind::File => node.content.resize(size),
                FileKind::Directory => return Err(Errno::ISDIR),
                _ => return Err(Errno::INVAL),
            }
            if size != old_size {
                node.modified = now;
            }
            if by != 0 {
                node.drop_privileges();
            }
        }
        if (uid.or(gid).is_some() || nothing) && node.kind != FileKind::Directory {
            node.drop_privileges();
            // Of a file, this is what the kernel does before a write, which others may do.
            let may_change = by == 0 || by == node.uid || node.kind == FileKind::File;
            if node.permissions != old_permissions && !may_change {
                node.permissions = old_permissions;
                return Err(Errno::PERM);
            }
        }
        node.uid = uid.unwrap_or(node.uid);
        node.gid = gid.unwrap_or(node.gid);
        if let Some(mode) = permissions {
            node.permissions = mode.0 & 0o7777;
        }
        let time = |when| match when {
            When::Now | When::Omit => now,
            When::At(seconds, nanoseconds) => Time {
                seconds,
                nanoseconds,
            },
        };
        node.accessed = accessed.map_or(node.accessed, time);
        node.modified = modified.map_or(node.modified, time);
        if others || size != Some(old_size) || node.permissions != old_permissions {
            node.changed = now;
        }
        Ok(Outcome::Attributes(node.attributes()))
    }

    pub(super) fn allocate(
        &mut self,
        file: Slot,
        offset: u64,
        length: u64,
        what: Allocate,
    ) -> Expected {
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        if length == 0 {
            return Err(Errno::INVAL);
        }
        if end > SIZE_MAX {
            return Err(Errno::FBIG);
        }
        let reserves = matches!(what, Allocate::Extend | Allocate::KeepSize);
        if reserves && length > DEVICE {
            return Err(Errno::NOSPC);
        }
        let now = self.now;
        let node = self.of_slot(file);
        match node.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::NODEV),
        }
        let extends = matches!(what, Allocate::Extend | Allocate::ZeroRange);
        let grows = extends && end > node.content.size();
        if !reserves {
            node.content.zero(offset, end);
        }
        if grows {
            node.content.resize(end);
        }
        if grows || !reserves {
            node.modified = now;
        }
        node.changed = now;
        Ok(Outcome::Done)
    }

    pub(super) fn copy(
        &mut self,
        (from, offset): (Slot, u64),
        (to, at): (Slot, u64),
        length: u64,
    ) -> Expected {
        let length = length.min(COPY_MAX);
        if at.checked_add(length).is_none_or(|end| end > SIZE_MAX) {
            return Err(Errno::FBIG);
        }
        let same = self.slots[&from] == self.slots[&to];
        if same && offset < at.saturating_add(length) && at < offset.saturating_add(length) {
            return Err(Errno::INVAL);
        }
        let data = self.of_slot(from).content.read(offset, length);
        if !data.is_empty() {
            let now = self.now;
            let node = self.of_slot(to);
            node.content.write(at, &data);
            (node.modified, node.changed) = (now, now);
        }
        Ok(Outcome::Count(data.len() as u64))
    }

    /// Whether data, or a hole, may be found at `found`, or nothing.
    pub fn allows_seek(
        &self,
        file: Slot,
        offset: u64,
        what: Seek,
        found: Result<u64, Errno>,
    ) -> bool {
        let Some(content) = self.node(file).map(|node| &node.content) else {
            return false;
        };
        let size = content.size();
        match (what, found) {
            _ if offset >= size => found == Err(Errno::NXIO),
            (Seek::Data, Ok(data)) => {
                (offset..size).contains(&data) && content.is_zero(offset, data)
            }
            (Seek::Data, Err(errno)) => errno == Errno::NXIO && content.is_zero(offset, size),
            (Seek::Hole, Ok(hole)) => {
                (offset..=size).contains(&hole) && content.is_zero(hole, size.min(hole + 1))
            }
            (Seek::Hole, Err(_)) => false,
        }
    }

    pub(super) fn set_extended(
        &mut self,
        of: Id,
        name: &Raw,
        value: Fill,
        existing: Existing,
    ) -> Expected {
        check_extended_name(name)?;
        if value.length > VALUE_MAX {
            return Err(Errno::TOOBIG);
        }
        let now = self.now;
        let node = self.get(of);
        match (existing, node.extended.contains_key(&name.0)) {
            (Existing::MustNotExist, true) => return Err(Errno::EXIST),
            (Existing::MustExist, false) => return Err(Errno::NODATA),
            _ => {}
        }
        node.extended.insert(name.0.clone(), value.bytes());
        node.changed = now;
        Ok(Outcome::Done)
    }

    pub(super) fn remove_extended(&mut self, of: Id, name: &Raw) -> Expected {
        check_extended_name(name)?;
        let now = self.now;
        let node = self.get(of);
        node.extended.remove(&name.0).ok_or(Errno::NODATA)?;
        node.changed = now;
        Ok(Outcome::Done)
    }
}
