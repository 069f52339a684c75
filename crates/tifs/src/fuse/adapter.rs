//! Requests of the kernel to calls of the file system, results to replies.
//!
//! The thread that read a request answers it before it reads the next one. Only searches for data
//! and holes are answered by a thread of their own.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::cached_writes::CachedWrites;
use super::convert::{self, FOR_EVER, GENERATION, without_trusted};
use super::failures::Failures;
use super::kernel_cache::KernelCache;
use super::negotiation::{self, Negotiated};
use super::seek::{Seek, Seeker};
use super::stale_attributes::StaleAttributes;
use super::wakeups::Wakeups;
use crate::error::Error;
use crate::file_system::{
    Attributes, Caller, Capacity, Changes, FileSystem, ListedEntry, NAME_MAX, WriteContext,
};
use crate::schema::InodeNumber;

/// Bytes of one request to copy a range: the reply has 32 bits for their number.
const MAX_COPY: u64 = 1 << 30;

/// The capacity, in blocks, at which a volume that was full has room again: enough for some large
/// requests.
const ROOM_AGAIN: u64 = (8 << 20) / Capacity::BLOCK_SIZE as u64;

/// The reason why `fsync` fails for a file that lacks data which the kernel had accepted.
const LACKS_DATA: &str =
    "the file lacks data that was refused before; write it again, or cut it off";

/// The reason why a write, or a read beyond the end, is refused before the kernel makes it.
const REFUSED_BEFORE: &str = "the volume is full, or could not store earlier writes to the file";

/// A file system as `fuser` calls it.
pub(super) struct Adapter {
    file_system: Arc<dyn FileSystem>,
    pub(super) cached_writes: CachedWrites,
    stale_attributes: StaleAttributes,
    pub(super) wakeups: Wakeups,
    seeker: Seeker,
    pub(super) failures: Arc<Failures>,
    negotiated: Negotiated,
}

impl Adapter {
    /// # Errors
    /// Those of starting a thread.
    pub(super) fn new(
        file_system: Arc<dyn FileSystem>,
        kernel_cache: KernelCache,
        fast_wakeups: Option<bool>,
    ) -> io::Result<Self> {
        let failures = Arc::default();
        Ok(Adapter {
            seeker: Seeker::start(&file_system, &kernel_cache, &failures)?,
            stale_attributes: StaleAttributes::start(&kernel_cache)?,
            cached_writes: CachedWrites::new(kernel_cache),
            wakeups: Wakeups::start(fast_wakeups)?,
            file_system,
            failures,
            negotiated: Negotiated::default(),
        })
    }
}

impl Adapter {
    fn entries_changed(&self, directory: InodeNumber) {
        self.stale_attributes.changed(directory);
    }
}

fn caller(request: &Request) -> Caller {
    Caller {
        uid: request.uid(),
        gid: request.gid(),
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.negotiated = negotiation::negotiate(config)?;
        Ok(())
    }

    fn lookup(&self, _: &Request, directory: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let directory = convert::inode(directory);
        match self.file_system.lookup(directory, name.as_bytes()) {
            Err(error) if error.errno() == rustix::io::Errno::NOENT => {
                self.wakeups.answered();
                reply.entry(&FOR_EVER, &convert::no_attributes(), GENERATION);
            }
            result => self.reply_entry("lookup", directory, result, reply),
        }
    }

    fn forget(&self, _: &Request, inode: INodeNo, references: u64) {
        let inode = convert::inode(inode);
        self.cached_writes.forgotten(inode);
        self.file_system.forget(inode, references);
    }

    /// For an open file, the kernel asks before it accepts a write, or a read beyond the end.
    fn getattr(&self, _: &Request, inode: INodeNo, open: Option<FileHandle>, reply: ReplyAttr) {
        let inode = convert::inode(inode);
        let has_room = || {
            let capacity = self.file_system.capacity();
            capacity.is_ok_and(|capacity| capacity.available >= ROOM_AGAIN)
        };
        if let Some(errno) = open.and_then(|_| self.cached_writes.hear(inode, has_room)) {
            // The write that this refuses is one that the kernel does not make.
            return reply.error(self.errno("write", inode, &Error::new(errno, REFUSED_BEFORE)));
        }
        let result = self.file_system.attributes(inode);
        self.reply_attributes("getattr", inode, result, reply);
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        changed: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes {
            permissions: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size,
            accessed: accessed.map(convert::new_time),
            modified: modified.map(convert::new_time),
            changed: changed.map(convert::time),
        };
        let inode = convert::inode(inode);
        let result = self
            .file_system
            .set_attributes(&caller(request), inode, &changes);
        if let (Ok(_), Some(size)) = (&result, size) {
            self.cached_writes.resized(inode, size);
        }
        self.reply_attributes("setattr", inode, result, reply);
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        let inode = convert::inode(inode);
        match self.file_system.read_link(inode) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(self.errno("readlink", inode, &error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        directory: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let directory = convert::inode(directory);
        let result = self.file_system.make_node(
            &caller(request),
            directory,
            name.as_bytes(),
            mode,
            umask,
            device,
        );
        let result = result.inspect(|_| self.entries_changed(directory));
        self.reply_entry("mknod", directory, result, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        directory: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let directory = convert::inode(directory);
        let result = self.file_system.make_directory(
            &caller(request),
            directory,
            name.as_bytes(),
            mode,
            umask,
        );
        let result = result.inspect(|_| self.entries_changed(directory));
        self.reply_entry("mkdir", directory, result, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        directory: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let directory = convert::inode(directory);
        let result = self.file_system.make_symlink(
            &caller(request),
            directory,
            name.as_bytes(),
            target.as_os_str().as_bytes(),
        );
        let result = result.inspect(|_| self.entries_changed(directory));
        self.reply_entry("symlink", directory, result, reply);
    }

    fn link(
        &self,
        _: &Request,
        inode: INodeNo,
        directory: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let (inode, directory) = (convert::inode(inode), convert::inode(directory));
        let result = self.file_system.link(inode, directory, name.as_bytes());
        let result = result.inspect(|_| self.entries_changed(directory));
        self.reply_entry("link", inode, result, reply);
    }

    fn unlink(&self, _: &Request, directory: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let directory = convert::inode(directory);
        let result = self.file_system.unlink(directory, name.as_bytes());
        let result = result.inspect(|()| self.entries_changed(directory));
        self.reply_empty("unlink", directory, result, reply);
    }

    fn rmdir(&self, _: &Request, directory: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let directory = convert::inode(directory);
        let result = self
            .file_system
            .remove_directory(directory, name.as_bytes());
        let result = result.inspect(|()| self.entries_changed(directory));
        self.reply_empty("rmdir", directory, result, reply);
    }

    fn rename(
        &self,
        request: &Request,
        from: INodeNo,
        from_name: &OsStr,
        to: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let Some(how) = convert::rename(flags) else {
            return reply.error(Errno::EINVAL);
        };
        let (from, to) = (convert::inode(from), convert::inode(to));
        let result = self.file_system.rename(
            &caller(request),
            (from, from_name.as_bytes()),
            (to, to_name.as_bytes()),
            how,
        );
        let result = result.inspect(|()| {
            self.entries_changed(from);
            self.entries_changed(to);
        });
        self.reply_empty("rename", from, result, reply);
    }

    /// `ENOSYS` tells the kernel to open and close files by itself from now on, and to keep their
    /// content in its cache.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.negotiated.opens_without_asking {
            reply.error(Errno::ENOSYS);
        } else {
            reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
        }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let inode = convert::inode(inode);
        match self.file_system.read(inode, offset, size as usize) {
            Ok(data) => {
                self.wakeups.answered();
                reply.data(&data);
            }
            Err(error) => reply.error(self.errno("read", inode, &error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let context = WriteContext {
            from_cache: flags.contains(WriteFlags::FUSE_WRITE_CACHE),
            drop_privileges: flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
        };
        let inode = convert::inode(inode);
        let range = offset..offset.saturating_add(data.len() as u64);
        match self.file_system.write(inode, offset, data, context) {
            Ok(written) => {
                let last_room = written.was_last_room;
                self.cached_writes.written(inode, range, last_room);
                if context.from_cache && written.blocks_changed {
                    self.stale_attributes.changed(inode);
                }
                reply.written(data.len() as u32);
            }
            Err(error) => {
                if context.from_cache {
                    self.cached_writes.refused(inode, range, error.errno());
                }
                reply.error(self.errno("write", inode, &error));
            }
        }
    }

    /// Before it asks, the kernel has written the changes to the file from its cache. There is
    /// nothing more to do when a file is closed; `ENOSYS` tells the kernel that it need not ask
    /// again.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let inode = convert::inode(inode);
        self.stale_attributes.synced(inode);
        // Data that the kernel dropped cannot become durable.
        let lacks = self.cached_writes.lacks(inode);
        let result = match lacks.filter(|_| !mutant!(dropped_data_forgotten)) {
            Some(errno) => Err(Error::new(errno, LACKS_DATA)),
            None => self.file_system.sync(),
        };
        self.wakeups.answered();
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errno("fsync", inode, &error)),
        }
    }

    /// As for files: the kernel opens directories by itself from now on, and keeps their listings
    /// until it changes their entries. A listing needs no handle, since its places need none.
    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.negotiated.opens_directories_without_asking {
            reply.error(Errno::ENOSYS);
        } else {
            let kept = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR;
            reply.opened(FileHandle(0), kept);
        }
    }

    fn readdir(
        &self,
        _: &Request,
        directory: INodeNo,
        _: FileHandle,
        from: u64,
        mut reply: ReplyDirectory,
    ) {
        let directory = convert::inode(directory);
        let result = self.file_system.list(directory, from, &mut |entry| {
            let name = OsStr::from_bytes(&entry.name);
            let kind = convert::kind(entry.kind);
            let full = reply.add(INodeNo(entry.inode.0), entry.next, kind, name);
            !full
        });
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errno("readdir", directory, &error)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        directory: INodeNo,
        _: FileHandle,
        from: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let directory = convert::inode(directory);
        let mut add = |entry: &ListedEntry, attributes: &Attributes| {
            self.cached_writes.answered(attributes.number);
            let full = reply.add(
                INodeNo(entry.inode.0),
                entry.next,
                OsStr::from_bytes(&entry.name),
                &FOR_EVER,
                &convert::attributes(attributes),
                GENERATION,
            );
            !full
        };
        let file_system = &self.file_system;
        match file_system.list_with_attributes(directory, from, &mut add) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errno("readdirplus", directory, &error)),
        }
    }

    /// For the root, this is about everything in the mount: see `tifs umount`.
    fn fsyncdir(&self, _: &Request, directory: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let is_root = directory == INodeNo::ROOT;
        let directory = convert::inode(directory);
        let exists = |inode| {
            let attributes = self.file_system.attributes(inode);
            attributes.is_ok_and(|attributes| attributes.inode.links > 0)
        };
        let lacks = is_root.then(|| self.cached_writes.any_lacks(exists));
        let synced = self.file_system.sync();
        let result = match lacks.flatten() {
            Some(errno) => synced.and(Err(Error::new(errno, LACKS_DATA))),
            None => synced,
        };
        self.reply_empty("fsyncdir", directory, result, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.file_system.capacity() {
            Ok(capacity) => reply.statfs(
                capacity.blocks,
                capacity.free,
                capacity.available,
                capacity.inodes,
                capacity.free_inodes,
                Capacity::BLOCK_SIZE,
                NAME_MAX as u32,
                Capacity::BLOCK_SIZE,
            ),
            Err(error) => reply.error(self.errno("statfs", None, &error)),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let Some(existing) = convert::existing(flags) else {
            return reply.error(Errno::EINVAL);
        };
        let (inode, name) = (convert::inode(inode), name.as_bytes());
        let result = self
            .file_system
            .set_extended_attribute(inode, name, value, existing);
        self.reply_empty("setxattr", inode, result, reply);
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        let (inode, name) = (convert::inode(inode), name.as_bytes());
        let result = self.file_system.extended_attribute(inode, name);
        self.reply_value("getxattr", inode, result, room, reply);
    }

    fn listxattr(&self, request: &Request, inode: INodeNo, room: u32, reply: ReplyXattr) {
        let inode = convert::inode(inode);
        let names = self.file_system.extended_attributes(inode);
        let seen = names.map(|names| match request.uid() {
            0 => names,
            _ => without_trusted(&names),
        });
        self.reply_value("listxattr", inode, seen, room, reply);
    }

    fn removexattr(&self, _: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (inode, name) = (convert::inode(inode), name.as_bytes());
        let result = self.file_system.remove_extended_attribute(inode, name);
        self.reply_empty("removexattr", inode, result, reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(what) = convert::allocate(mode) else {
            return reply.error(Errno::EOPNOTSUPP);
        };
        let inode = convert::inode(inode);
        let result = self.file_system.allocate(inode, offset, length, what);
        self.reply_empty("fallocate", inode, result, reply);
    }

    fn lseek(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let (Some(what), Ok(offset)) = (convert::seek(whence), u64::try_from(offset)) else {
            return reply.error(Errno::EINVAL);
        };
        self.seeker.seek(Seek {
            inode: convert::inode(inode),
            offset,
            what,
            reply,
        });
    }

    fn copy_file_range(
        &self,
        _: &Request,
        from: INodeNo,
        _: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let from = (convert::inode(from), from_offset);
        let to = (convert::inode(to), to_offset);
        match self.file_system.copy_range(from, to, length.min(MAX_COPY)) {
            Ok(copied) => {
                let (to, offset) = to;
                let range = offset..offset.saturating_add(copied);
                self.cached_writes.written(to, range, false);
                reply.written(copied as u32);
            }
            Err(error) => reply.error(self.errno("copy_file_range", from.0, &error)),
        }
    }
}
