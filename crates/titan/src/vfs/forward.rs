//! Macros for file systems that do most calls as another one does them, or as it does them for
//! another path.

/// Implements the calls of [`Vfs`](super::Vfs) that are named, by those of another file system.
macro_rules! forward {
    ($self:ident, $to:expr; $($call:ident)+) => { $(forward!(@$call $self $to);)+ };
    (@create $s:ident $to:expr) => {
        forward!(@as $s $to, create(path: &Path) -> Result<Box<dyn WritableFile>>);
    };
    (@create_log $s:ident $to:expr) => {
        forward!(@as $s $to, create_log(path: &Path) -> Result<Box<dyn WritableFile>>);
    };
    (@open $s:ident $to:expr) => {
        forward!(@as $s $to, open(path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>>);
    };
    (@remove $s:ident $to:expr) => { forward!(@as $s $to, remove(path: &Path) -> Result<()>); };
    (@rename $s:ident $to:expr) => {
        forward!(@as $s $to, rename(from: &Path, to: &Path) -> Result<()>);
    };
    (@link $s:ident $to:expr) => {
        forward!(@as $s $to, link(from: &Path, to: &Path) -> Result<()>);
    };
    (@link_count $s:ident $to:expr) => {
        forward!(@as $s $to, link_count(path: &Path) -> Result<u64>);
    };
    (@sync_dir $s:ident $to:expr) => { forward!(@as $s $to, sync_dir(dir: &Path) -> Result<()>); };
    (@create_dir_all $s:ident $to:expr) => {
        forward!(@as $s $to, create_dir_all(dir: &Path) -> Result<()>);
    };
    (@remove_dir $s:ident $to:expr) => {
        forward!(@as $s $to, remove_dir(dir: &Path) -> Result<()>);
    };
    (@read_dir $s:ident $to:expr) => {
        forward!(@as $s $to, read_dir(dir: &Path) -> Result<Vec<String>>);
    };
    (@size $s:ident $to:expr) => { forward!(@as $s $to, size(path: &Path) -> Result<u64>); };
    (@allocated_bytes $s:ident $to:expr) => {
        forward!(@as $s $to, allocated_bytes(path: &Path) -> Result<u64>);
    };
    (@exists $s:ident $to:expr) => { forward!(@as $s $to, exists(path: &Path) -> Result<bool>); };
    (@canonicalize $s:ident $to:expr) => {
        forward!(@as $s $to, canonicalize(path: &Path) -> Result<std::path::PathBuf>);
    };
    (@device_space $s:ident $to:expr) => {
        forward!(@as $s $to, device_space(dir: &Path) -> Result<Option<crate::vfs::DeviceSpace>>);
    };
    (@resources $s:ident $to:expr) => {
        forward!(@as $s $to, resources() -> crate::vfs::Resources);
    };
    (@lock $s:ident $to:expr) => {
        forward!(@as $s $to, lock(path: &Path) -> Result<Box<dyn FileLock>>);
    };
    (@lock_shared $s:ident $to:expr) => {
        forward!(@as $s $to, lock_shared(path: &Path) -> Result<Box<dyn FileLock>>);
    };
    (@lock_directory $s:ident $to:expr) => {
        forward!(@as $s $to, lock_directory(dir: &Path) -> Result<Box<dyn FileLock>>);
    };
    (@as $self:ident $to:expr, $call:ident($($name:ident: $type:ty),*) -> $result:ty) => {
        fn $call(&$self $(, $name: $type)*) -> $result {
            $to.$call($($name),*)
        }
    };
}

/// The calls about one existing file, of a file system that finds it by `self.place`.
macro_rules! at_place {
    ($($call:ident($($name:ident: $type:ty)?) -> $result:ty;)+) => {
        $(fn $call(&self, path: &Path $(, $name: $type)?) -> $result {
            self.inner.$call(&self.place(path)? $(, $name)?)
        })+
    };
    () => {
        at_place! {
            open(access: Access) -> Result<Arc<dyn ReadableFile>>;
            open_guarded() -> Result<Arc<dyn ReadableFile>>;
            open_to_punch() -> Result<Box<dyn PunchableFile>>;
            remove() -> Result<()>;
            link_count() -> Result<u64>;
            size() -> Result<u64>;
            allocated_bytes() -> Result<u64>;
            exists() -> Result<bool>;
            sync_file() -> Result<()>;
            sync_closed() -> Result<()>;
        }
    };
}
pub(crate) use {at_place, forward};
