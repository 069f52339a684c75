//! Users as which a thread makes system calls.

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// A user, with a group and further groups.
#[derive(Clone, Copy, Debug)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    pub groups: &'static [u32],
}

/// The superuser, as which the tests run.
pub const ROOT: User = User {
    uid: 0,
    gid: 0,
    groups: &[],
};

/// A group that [`ALICE`] and [`BOB`] are in.
pub const SHARED_GROUP: u32 = 2000;

/// A user without privileges.
pub const ALICE: User = User {
    uid: 1001,
    gid: 1001,
    groups: &[1001, SHARED_GROUP],
};

/// Another.
pub const BOB: User = User {
    uid: 1002,
    gid: 1002,
    groups: &[SHARED_GROUP],
};

impl User {
    /// The user with an ID: one of these, or another without further groups.
    pub fn of(uid: u32) -> User {
        let known = [ROOT, ALICE, BOB].into_iter().find(|user| user.uid == uid);
        known.unwrap_or(User {
            uid,
            gid: uid,
            groups: &[],
        })
    }

    /// Makes system calls as this user. Only the calling thread changes its user, and only for as
    /// long as the call lasts.
    pub fn does<T>(self, calls: impl FnOnce() -> T) -> T {
        struct BackToRoot;
        impl Drop for BackToRoot {
            fn drop(&mut self) {
                set(ROOT);
            }
        }
        let _back = BackToRoot;
        set(self);
        calls()
    }
}

/// Sets the effective IDs, which count for file systems. The real ones stay those of the superuser,
/// who may change them again.
fn set(user: User) {
    let superuser = Uid::from_raw(0);
    set_thread_res_uid(None, superuser, None).unwrap();
    let groups: Vec<Gid> = user.groups.iter().map(|&gid| Gid::from_raw(gid)).collect();
    set_thread_groups(&groups).unwrap();
    set_thread_res_gid(None, Gid::from_raw(user.gid), None).unwrap();
    set_thread_res_uid(None, Uid::from_raw(user.uid), None).unwrap();
}
