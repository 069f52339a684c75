//! The calls of a POSIX file system, by inode number.
//!
//! A server of the FUSE protocol calls [`FileSystem`] and a [volume](crate::volume) implements it,
//! so that neither has a type of the other. Names are bytes without `/` and zero. The kernel checks
//! permissions before it calls, by the attributes that it got.
//!
//! # References
//!
//! A call that returns an [`Attributes`] for a name (`lookup`, `mknod`, `mkdir`, `symlink`, `link`,
//! and each entry of a listing with attributes) gives the caller a reference to the inode, until
//! [`FileSystem::forget`]. A file without names exists while there are references to it. The kernel
//! has one for every open file, so open and close need no count.

use bytes::Bytes;

use crate::error::Result;
use crate::schema::{FileKind, Inode, InodeNumber, Time};

/// The process for which the kernel asks.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The user ID that counts for file systems.
    pub uid: u32,
    /// The group ID that counts for file systems.
    pub gid: u32,
}

/// An inode and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The number.
    pub number: InodeNumber,
    /// Everything else.
    pub inode: Inode,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewTime {
    /// The time at which the change takes effect.
    Now,
    /// This time.
    At(Time),
}

/// The changes of [`FileSystem::set_attributes`]. `None` leaves a value as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Permissions: the lower 12 bits count.
    pub permissions: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The size: the content is cut, or followed by zeros.
    pub size: Option<u64>,
    /// Last access.
    pub accessed: Option<NewTime>,
    /// Last change of the content.
    pub modified: Option<NewTime>,
    /// Last change of the attributes. Now, if it is not given.
    pub changed: Option<Time>,
}

impl Changes {
    /// Whether this is a change of owner, which costs a file its privileges. One that keeps both
    /// the user and the group (`chown` with -1 and -1) arrives as a change of nothing, and so does
    /// a write.
    pub fn change_owner(&self) -> bool {
        let nothing = Changes {
            changed: self.changed,
            ..Changes::default()
        };
        self.uid.is_some() || self.gid.is_some() || *self == nothing
    }

    /// Whether these are only times that the kernel keeps itself while it knows the inode.
    pub fn are_kept_by_kernel(&self) -> bool {
        let kept = Changes {
            modified: self.modified,
            changed: self.changed,
            ..Changes::default()
        };
        self.modified.is_some() && self.changed.is_some() && *self == kept
    }
}

/// The rule of [`FileSystem::rename`] for a name that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rename {
    /// It is replaced.
    Replace,
    /// Nothing is done: `EEXIST`.
    NoReplace,
    /// The two names change places; both must exist.
    Exchange,
    /// It is replaced, and a character device 0:0 takes the old place of the name.
    Whiteout,
}

/// The rule of [`FileSystem::set_extended_attribute`] for an attribute that exists, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced; otherwise it is created.
    Any,
    /// It must not exist: `EEXIST`.
    MustNotExist,
    /// It must exist: `ENODATA`.
    MustExist,
}

/// The effect of [`FileSystem::allocate`] on a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// The file is at least as long as the range reaches.
    Extend,
    /// Nothing that can be seen.
    KeepSize,
    /// The range becomes a hole. The size stays.
    PunchHole,
    /// The range becomes zeros, and the file is at least as long as the range reaches.
    ZeroRange,
    /// The range becomes zeros. The size stays.
    ZeroRangeKeepSize,
}

/// The goal of [`FileSystem::seek`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next stored byte.
    Data,
    /// The next hole; the end of the file counts as one.
    Hole,
}

/// The circumstances of a write.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteContext {
    /// The kernel writes back its cache: it sets the times itself.
    pub from_cache: bool,
    /// The bits for set-user-ID and set-group-ID must go.
    pub drop_privileges: bool,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// [`Inode::blocks`] changed.
    pub blocks_changed: bool,
    /// The write used the reserve for writes of the kernel's cache. The next writer must get
    /// `ENOSPC`, before the kernel accepts more.
    pub was_last_room: bool,
}

/// One name of a directory, as a listing returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// The name, `.` and `..` included.
    pub name: Bytes,
    /// The inode.
    pub inode: InodeNumber,
    /// Its kind.
    pub kind: FileKind,
    /// Where a listing that goes on after this entry begins.
    pub next: u64,
}

/// Capacity, as `statvfs` has it. Blocks are of [`Capacity::BLOCK_SIZE`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Blocks that the volume has and could have.
    pub blocks: u64,
    /// Blocks that are free, some of them for the superuser only.
    pub free: u64,
    /// Blocks that are free for all users.
    pub available: u64,
    /// Inodes that the volume has and could have.
    pub inodes: u64,
    /// Inodes that it could have in addition.
    pub free_inodes: u64,
}

impl Capacity {
    /// Bytes of a block.
    pub const BLOCK_SIZE: u32 = 4096;
}

/// The longest name of a directory entry, in bytes.
pub const NAME_MAX: usize = 255;

/// The longest target of a symbolic link, in bytes.
pub const TARGET_MAX: usize = 4095;

/// The longest file, in bytes, that the kernel allows. It refuses longer ones itself, before it
/// takes a write into its cache.
pub const SIZE_MAX: u64 = i64::MAX as u64;

/// Hands the list of calls to the macro `$then`: the trait, a volume and the decorators are made
/// from it.
macro_rules! calls {
    ($then:ident) => {
        $then! {
            /// The inode of a name in a directory. `ENOENT` if there is none. Gives a reference.
            ///
            /// `.` is the inode itself, be it a directory or not, and `..` the directory above. So
            /// a number that was known earlier finds the inode again. `ESTALE` if it has no names
            /// any more.
            fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<Attributes>;

            /// Takes back so many references.
            fn forget(&self, inode: InodeNumber, references: u64);

            /// The attributes of an inode.
            fn attributes(&self, inode: InodeNumber) -> Result<Attributes>;

            /// Changes attributes, and returns those after the change.
            fn set_attributes(
                &self,
                caller: &Caller,
                inode: InodeNumber,
                changes: &Changes
            ) -> Result<Attributes>;

            /// The target of a symbolic link.
            fn read_link(&self, inode: InodeNumber) -> Result<Bytes>;

            /// Creates a file that is neither a directory nor a symbolic link. `mode` has its kind;
            /// `umask` counts if the directory has no default ACL. Gives a reference.
            fn make_node(
                &self,
                caller: &Caller,
                directory: InodeNumber,
                name: &[u8],
                mode: u32,
                umask: u32,
                device: u32
            ) -> Result<Attributes>;

            /// Creates a directory. Gives a reference.
            fn make_directory(
                &self,
                caller: &Caller,
                directory: InodeNumber,
                name: &[u8],
                mode: u32,
                umask: u32
            ) -> Result<Attributes>;

            /// Creates a symbolic link. Gives a reference.
            fn make_symlink(
                &self,
                caller: &Caller,
                directory: InodeNumber,
                name: &[u8],
                target: &[u8]
            ) -> Result<Attributes>;

            /// Gives an inode that is no directory a further name. Gives a reference.
            fn link(&self, inode: InodeNumber, directory: InodeNumber, name: &[u8]) -> Result<Attributes>;

            /// Removes a name of something that is no directory.
            fn unlink(&self, directory: InodeNumber, name: &[u8]) -> Result<()>;

            /// Removes an empty directory.
            fn remove_directory(&self, directory: InodeNumber, name: &[u8]) -> Result<()>;

            /// Moves a name.
            fn rename(
                &self,
                caller: &Caller,
                from: (InodeNumber, &[u8]),
                to: (InodeNumber, &[u8]),
                how: Rename
            ) -> Result<()>;

            /// Reads content: less than `size` bytes only at the end of the file.
            fn read(&self, inode: InodeNumber, offset: u64, size: usize) -> Result<Bytes>;

            /// Writes content, all of it.
            fn write(
                &self,
                inode: InodeNumber,
                offset: u64,
                data: &[u8],
                context: WriteContext
            ) -> Result<Written>;

            /// Makes everything that was done before the call survive a power failure.
            fn sync(&self) -> Result<()>;

            /// Lists a directory from a place on: 0, or any [`ListedEntry::next`] that it had.
            /// Calls `entry` for each name until it returns false or there are no more. Places do
            /// not change when names are created and removed, nor when the volume is closed: a name
            /// that stays is listed once.
            ///
            /// # Errors
            /// `EINVAL` if it is no place of the directory, such as that of a name that was removed
            /// long ago.
            fn list(
                &self,
                directory: InodeNumber,
                from: u64,
                entry: &mut dyn FnMut(&ListedEntry) -> bool
            ) -> Result<()>;

            /// The same with attributes. Each entry for which `entry` returns true gives a
            /// reference, except `.` and `..`. If it fails, it has given none.
            fn list_with_attributes(
                &self,
                directory: InodeNumber,
                from: u64,
                entry: &mut dyn FnMut(&ListedEntry, &Attributes) -> bool
            ) -> Result<()>;

            /// The size and the free space.
            fn capacity(&self) -> Result<Capacity>;

            /// Sets an extended attribute.
            fn set_extended_attribute(
                &self,
                inode: InodeNumber,
                name: &[u8],
                value: &[u8],
                existing: Existing
            ) -> Result<()>;

            /// The value of an extended attribute. `ENODATA` if there is none.
            fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Bytes>;

            /// The names of all extended attributes, each followed by a zero.
            fn extended_attributes(&self, inode: InodeNumber) -> Result<Vec<u8>>;

            /// Removes an extended attribute. `ENODATA` if there is none.
            fn remove_extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<()>;

            /// Allocates, deletes or zeroes a range of a file. Many blocks are deleted piece by
            /// piece, from the beginning of the range: if that fails or the process ends, some of
            /// them are deleted.
            fn allocate(&self, inode: InodeNumber, offset: u64, length: u64, what: Allocate) -> Result<()>;

            /// The next data or hole at or after an offset. `ENXIO` at or after the end.
            fn seek(&self, inode: InodeNumber, offset: u64, what: Seek) -> Result<u64>;

            /// Copies a range from one file to another, or within one. Returns how many bytes were
            /// copied: less than `length` at the end of the source, or if that is convenient.
            /// Ranges of the same file must not overlap.
            fn copy_range(
                &self,
                from: (InodeNumber, u64),
                to: (InodeNumber, u64),
                length: u64
            ) -> Result<u64>;
        }
    };
}
pub(crate) use calls;

macro_rules! declare {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        /// A POSIX file system. Every call either has all of its effect or fails and has none; so
        /// it is also after a crash. Only [`FileSystem::allocate`] may have a part of its effect
        /// then. See the [module](self) for names and references.
        pub trait FileSystem: Send + Sync + 'static {
            $($(#[$doc])* fn $name(&self $(, $arg: $type)*) $(-> $result)?;)*
        }
    };
}
calls!(declare);

/// A call with a body of its own, which names the arguments. Their types are those of the list.
macro_rules! call {
    ($name:ident ($($_:ident: $type:ty),*) $($result:ty)?, |$self:ident $(, $arg:ident)*| $body:expr) => {
        fn $name(&$self $(, $arg: $type)*) $(-> $result)? {
            $body
        }
    };
}
pub(crate) use call;

/// An argument or the answer of a call, with the numbers of inodes in it.
pub(crate) trait Inodes: Sized {
    /// The inode that the call is about.
    fn inode(&self) -> Option<InodeNumber> {
        None
    }

    /// The same with other numbers.
    fn map_inodes(self, _: impl Fn(InodeNumber) -> InodeNumber) -> Self {
        self
    }
}

impl Inodes for InodeNumber {
    fn inode(&self) -> Option<InodeNumber> {
        Some(*self)
    }

    fn map_inodes(self, map: impl Fn(InodeNumber) -> InodeNumber) -> Self {
        map(self)
    }
}

impl<T> Inodes for (InodeNumber, T) {
    fn inode(&self) -> Option<InodeNumber> {
        Some(self.0)
    }

    fn map_inodes(self, map: impl Fn(InodeNumber) -> InodeNumber) -> Self {
        (map(self.0), self.1)
    }
}

impl Inodes for Attributes {
    fn map_inodes(self, map: impl Fn(InodeNumber) -> InodeNumber) -> Self {
        let number = map(self.number);
        Attributes { number, ..self }
    }
}

macro_rules! without_inodes {
    ($($type:ty),* $(,)?) => {
        $(impl Inodes for $type {})*
    };
}

without_inodes!(
    (),
    u32,
    u64,
    usize,
    &[u8],
    Bytes,
    Vec<u8>,
    &Caller,
    &Changes,
    Rename,
    Existing,
    Allocate,
    Seek,
    WriteContext,
    Written,
    Capacity,
    &mut dyn FnMut(&ListedEntry) -> bool,
    &mut dyn FnMut(&ListedEntry, &Attributes) -> bool,
);
