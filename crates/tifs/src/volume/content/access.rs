//! The marks that reads and writes leave on an inode: the time of the last access, lost privileges.

use crate::error::Result;
use crate::schema::{Inode, InodeNumber, Time};
use crate::volume::state::options::AccessTime;
use crate::volume::state::volume::Volume;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o0010;

impl Volume {
    /// Changes the time of the last access, if a read must do that now. `inode` is as the read saw
    /// it.
    pub(in crate::volume) fn note_access(&self, number: InodeNumber, inode: &Inode) -> Result<()> {
        let is_due = |inode: &Inode| match self.options.access_time {
            AccessTime::Never => false,
            AccessTime::Relative => access_is_due(inode, self.now()),
            AccessTime::Strict => true,
        };
        if self.options.read_only || !is_due(inode) {
            return Ok(());
        }
        let _lock = self.locks.exclusive(&[number])?;
        // Another read may have changed it while this one waited.
        if !is_due(&self.stored(number)?.inode) {
            return Ok(());
        }
        self.change(|change| {
            let mut inode = change.inode(number)?;
            inode.accessed = change.now;
            change.put_inode(number, &inode)
        })
    }
}

/// Removes the bits by which a program would run for its owner or group. Without the right to
/// execute it for the group, the bit of the group means something else and stays.
pub(in crate::volume) fn drop_privileges(inode: &mut Inode) {
    inode.permissions &= !SET_USER_ID;
    if inode.permissions & GROUP_EXECUTE != 0 {
        inode.permissions &= !SET_GROUP_ID;
    }
}

/// Whether a read changes the time of the last access, if it is relative.
fn access_is_due(inode: &Inode, now: Time) -> bool {
    const DAY: i64 = 24 * 60 * 60;
    inode.accessed <= inode.modified
        || inode.accessed <= inode.changed
        || now.seconds.saturating_sub(inode.accessed.seconds) >= DAY
}
