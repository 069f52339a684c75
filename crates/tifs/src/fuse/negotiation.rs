//! The features of the kernel, and those that a mount uses.

use std::io;

use fuser::{InitFlags, KernelConfig};

/// The largest write request, in bytes. The kernel sends no larger ones by default.
const MAX_WRITE: u32 = 1 << 20;

/// Requests in the background, such as reads ahead and write-back, that may wait for an answer.
const MAX_BACKGROUND: u16 = 64;

/// The features that a mount uses if the kernel has them.
const USED: &[InitFlags] = &[
    // The kernel gathers writes in its cache, and keeps size and times of the files that it has
    // there.
    InitFlags::FUSE_WRITEBACK_CACHE,
    // Lookups and listings of one directory do not wait for each other.
    InitFlags::FUSE_PARALLEL_DIROPS,
    // Listings give attributes along, when the kernel finds that they are wanted.
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // The kernel finds inodes again by their numbers (`.` and `..`), for file handles and NFS.
    InitFlags::FUSE_EXPORT_SUPPORT,
    // The file system clears set-user-ID and set-group-ID bits when it is told to, so the kernel
    // need not ask for the capabilities of a file before each write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // The kernel decides by ACLs, and passes the umask on so that a default ACL can replace it.
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_MAX_PAGES,
];

/// The outcome for the adapter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Negotiated {
    /// The kernel opens files without asking once `open` was refused with `ENOSYS`.
    pub(super) opens_without_asking: bool,
    /// The same for directories and `opendir`.
    pub(super) opens_directories_without_asking: bool,
}

/// Requests the features.
///
/// # Errors
/// The kernel has no write-back cache: such kernels are older than 3.15.
pub(super) fn negotiate(config: &mut KernelConfig) -> io::Result<Negotiated> {
    if !config
        .capabilities()
        .contains(InitFlags::FUSE_WRITEBACK_CACHE)
    {
        let message = "the kernel's FUSE has no write-back cache";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    for &flag in USED {
        // One at a time: an older kernel then has the others.
        let _ = config.add_capabilities(flag);
    }
    // Each of these says the nearest value that the kernel takes.
    if let Err(nearest) = config.set_max_write(MAX_WRITE) {
        let _ = config.set_max_write(nearest);
    }
    if let Err(nearest) = config.set_max_readahead(MAX_WRITE) {
        let _ = config.set_max_readahead(nearest);
    }
    if let Err(nearest) = config.set_max_background(MAX_BACKGROUND) {
        let _ = config.set_max_background(nearest);
    }
    Ok(Negotiated {
        opens_without_asking: config
            .capabilities()
            .contains(InitFlags::FUSE_NO_OPEN_SUPPORT),
        opens_directories_without_asking: config
            .capabilities()
            .contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT),
    })
}
