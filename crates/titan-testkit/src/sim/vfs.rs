//! The simulated file system itself: every call passes through hook, faults, model, journal and
//! counters, in this order.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use titan::vfs::{
    Access, DeviceSpace, FileLock, PunchableFile, ReadableFile, Resources, Vfs, WritableFile,
};
use titan::{Bytes, Error, ErrorKind, Result};

use crate::clock::SimClock;

use super::counters::Counters;
use super::disk::{Disk, Node, parts};
use super::fault::{Effect, Errno, Fault, FaultHandle, Faults};
use super::handles::{Reader, SimLock, Writer};
use super::journal::Journal;
use super::latency::{Device, Latency};
use super::op::{Call, FileId, FsOp, Mark, OpKind, Purpose};

type Hook = Arc<dyn Fn(&Call<'_>) + Send + Sync>;

/// A file system in memory; see the [module](super) documentation. Clones are the same one.
#[derive(Clone)]
pub struct SimVfs(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    hook: RwLock<Option<Hook>>,
}

pub(super) struct State {
    pub(super) disk: Disk,
    journal: Journal,
    faults: Faults,
    counters: Counters,
    capacity: Option<u64>,
    max_open_files: Option<usize>,
    resources: Resources,
    /// Files created to be written with direct I/O.
    direct: BTreeSet<PathBuf>,
    /// Bytes requested by readahead.
    prefetched: BTreeMap<PathBuf, u64>,
    device: Option<Device>,
    pub(super) locks: BTreeSet<PathBuf>,
}

impl Default for SimVfs {
    fn default() -> Self {
        Self::new()
    }
}

impl SimVfs {
    /// An empty file system: only the root directory exists.
    pub fn new() -> Self {
        Self::from_disk(Disk::new())
    }

    pub(super) fn from_disk(disk: Disk) -> Self {
        SimVfs(Arc::new(Shared {
            state: Mutex::new(State {
                journal: Journal::starting_at(disk.clone()),
                disk,
                faults: Faults::default(),
                counters: Counters::default(),
                capacity: None,
                max_open_files: None,
                resources: Resources::default(),
                direct: BTreeSet::new(),
                prefetched: BTreeMap::new(),
                device: None,
                locks: BTreeSet::new(),
            }),
            hook: RwLock::new(None),
        }))
    }

    /// The operations since the beginning, or since [`SimVfs::restart_journal`].
    pub fn journal(&self) -> Journal {
        self.state().journal.clone()
    }

    /// Clears the journal, so that crash points are only those of later operations.
    pub fn restart_journal(&self) {
        let mut state = self.state();
        let mut base = state.disk.clone();
        base.handles.clear();
        state.journal = Journal::starting_at(base);
    }

    /// Records in the journal that `mark` holds from here on. Call it after the acknowledgement it
    /// stands for, and before anything else that changes the file system.
    pub fn mark(&self, mark: impl Into<Mark>) {
        let journal = &mut self.state().journal;
        journal.positions.push(journal.ops.len());
        journal.marks.push(mark.into());
    }

    /// Makes operations fail from now on. Of several faults that match, the first one injected
    /// strikes.
    pub fn inject(&self, fault: Fault) -> FaultHandle {
        self.state().faults.add(fault)
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Calls `hook` before each operation, in the thread that performs it and without holding any
    /// lock of the file system: it may block, inject faults or take a journal. Its own operations
    /// call it again.
    pub fn set_hook(&self, hook: impl Fn(&Call<'_>) + Send + Sync + 'static) {
        *self.0.hook.write() = Some(Arc::new(hook));
    }

    /// Removes the hook. Calls already in it finish.
    pub fn clear_hook(&self) {
        *self.0.hook.write() = None;
    }

    /// Limits the bytes of all files together; `None` removes the limit. An append that does not
    /// fit writes the part that does and reports ENOSPC. Files that were removed but are open
    /// count, punched holes do not.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Bytes of all files together, as they count for the capacity.
    pub fn used(&self) -> u64 {
        self.state().disk.used()
    }

    /// Limits how many files and locks may be open at once; `None` removes the limit. At the limit
    /// every operation that opens something, even temporarily like the sync of a directory,
    /// reports EMFILE.
    pub fn set_max_open_files(&self, files: Option<usize>) {
        self.state().max_open_files = files;
    }

    /// Sets the resources that the machine reports from now on. They are not enforced.
    pub fn set_resources(&self, resources: Resources) {
        self.state().resources = resources;
    }

    /// The files created since the last call to be written with direct I/O.
    pub fn take_direct_files(&self) -> BTreeSet<PathBuf> {
        std::mem::take(&mut self.state().direct)
    }

    /// From now on each operation, including failing ones, advances `clock` by its cost. No thread
    /// really waits.
    pub fn set_latency(&self, latency: Latency, clock: &SimClock) {
        self.state().device = Some(Device::new(latency, clock.clone()));
    }

    /// Number of operations of a kind that succeeded on paths ending in `suffix`.
    pub fn count(&self, kind: OpKind, suffix: &str) -> u64 {
        self.state().counters.sum(kind, suffix).calls
    }

    /// Bytes appended to paths ending in `suffix`.
    pub fn bytes_written(&self, suffix: &str) -> u64 {
        self.state().counters.sum(OpKind::Append, suffix).bytes
    }

    /// Bytes read from paths ending in `suffix`.
    pub fn bytes_read(&self, suffix: &str) -> u64 {
        self.state().counters.sum(OpKind::Read, suffix).bytes
    }

    /// Bytes of paths ending in `suffix` that were requested by readahead. This reads nothing.
    pub fn bytes_prefetched(&self, suffix: &str) -> u64 {
        let state = self.state();
        let paths = state.prefetched.iter();
        let wanted = paths.filter(|(path, _)| path.to_string_lossy().ends_with(suffix));
        wanted.map(|(_, bytes)| bytes).sum()
    }

    pub(super) fn count_prefetched(&self, path: &Path, bytes: usize) {
        let mut state = self.state();
        *state.prefetched.entry(path.to_owned()).or_default() += bytes as u64;
    }

    /// Resets the counters.
    pub fn reset_counters(&self) {
        self.state().prefetched.clear();
        self.state().counters = Counters::default();
    }

    pub(super) fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.0.state.lock()
    }

    fn call_hook(&self, call: &Call<'_>) {
        let hook = self.0.hook.read().clone();
        if let Some(hook) = hook {
            hook(call);
        }
    }

    /// An operation that changes nothing: `look` returns its result and the bytes it moved.
    pub(super) fn observe<T>(
        &self,
        call: &Call<'_>,
        action: &str,
        look: impl FnOnce(&mut State) -> io::Result<(T, usize)>,
    ) -> Result<T> {
        self.observe_within(call, action, |state, _| look(state))
    }

    /// As [`SimVfs::observe`]; `look` also gets the number of bytes that a fault lets it move.
    pub(super) fn observe_within<T>(
        &self,
        call: &Call<'_>,
        action: &str,
        look: impl FnOnce(&mut State, usize) -> io::Result<(T, usize)>,
    ) -> Result<T> {
        self.call_hook(call);
        let mut state = self.state();
        let outcome = state.begin(call).and_then(|struck| match struck {
            Some((_, Effect::Short(limit))) => look(&mut state, limit),
            Some((errno, _)) => Err(errno.error()),
            None => look(&mut state, usize::MAX),
        });
        let (value, bytes) = outcome.map_err(|e| call.error(e, action))?;
        state.counters.add(call, bytes);
        Ok(value)
    }

    /// An operation that changes the file system: `plan` returns the change, given the state.
    pub(super) fn perform(
        &self,
        call: &Call<'_>,
        action: &str,
        plan: impl FnOnce(&State) -> io::Result<FsOp>,
    ) -> Result<()> {
        self.perform_then(call, action, plan, |_| Ok(()))
    }

    /// As [`SimVfs::perform`]; examines the outcome before another thread can act.
    fn perform_then<T>(
        &self,
        call: &Call<'_>,
        action: &str,
        plan: impl FnOnce(&State) -> io::Result<FsOp>,
        then: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T> {
        self.call_hook(call);
        let mut state = self.state();
        let outcome = state.begin(call).and_then(|struck| {
            match struck {
                Some((errno, effect)) => state.fail(plan, errno, effect),
                None => plan(&state).and_then(|op| state.run(op)),
            }?;
            then(&mut state)
        });
        let value = outcome.map_err(|e| call.error(e, action))?;
        state.counters.add(call, call.len);
        Ok(value)
    }

    /// Finds and pins the file with this path.
    fn open_file(&self, path: &Path) -> Result<FileId> {
        self.observe(&Call::new(OpKind::Open, path), "open file", |state| {
            let file = state.disk.find_file(path)?;
            state.pin(file);
            Ok((file, 0))
        })
    }

    fn create_for(&self, purpose: Purpose, path: &Path) -> Result<Box<dyn WritableFile>> {
        let call = Call::new(OpKind::Create, path);
        let plan = |state: &State| {
            let file = match state.disk.find(path)? {
                Some(Node::File(file)) => file,
                _ => state.disk.next_file(),
            };
            Ok(FsOp::Create {
                path: path.into(),
                file,
                purpose,
            })
        };
        let file = self.perform_then(&call, "create file", plan, |state| {
            let file = state.disk.find_file(path)?;
            state.pin(file);
            Ok(file)
        })?;
        Ok(Box::new(Writer::new(
            self.clone(),
            file,
            path.into(),
            purpose,
        )))
    }
}

impl State {
    /// Begins an operation: it takes its time and needs its descriptor. Returns the fault that
    /// strikes it.
    fn begin(&mut self, call: &Call<'_>) -> io::Result<Option<(Errno, Effect)>> {
        if let Some(device) = &mut self.device {
            device.spend(call);
        }
        let struck = self.faults.strike(call);
        if struck.is_none() && call.kind.opens() && self.has_all_files_open() {
            return Err(Errno::TOO_MANY_FILES.error());
        }
        Ok(struck)
    }

    fn has_all_files_open(&self) -> bool {
        let open = || self.disk.handles.values().sum::<usize>() + self.locks.len();
        self.max_open_files.is_some_and(|limit| open() >= limit)
    }

    /// Applies and records an operation.
    pub(super) fn run(&mut self, op: FsOp) -> io::Result<()> {
        if let (FsOp::Append { path, file, data }, Some(capacity)) = (&op, self.capacity) {
            let room = capacity.saturating_sub(self.disk.used());
            if data.len() as u64 > room {
                let data = data.slice(..room as usize);
                self.record(FsOp::Append {
                    path: Arc::clone(path),
                    file: *file,
                    data,
                })?;
                return Err(Errno::NO_SPACE.error());
            }
        }
        self.record(op)
    }

    fn record(&mut self, op: FsOp) -> io::Result<()> {
        self.disk.apply(&op)?;
        self.journal.ops.push(op);
        Ok(())
    }

    /// Fails an operation, with the effect that the fault allows.
    fn fail(
        &mut self,
        plan: impl FnOnce(&State) -> io::Result<FsOp>,
        errno: Errno,
        effect: Effect,
    ) -> io::Result<()> {
        let partial = match effect {
            Effect::Nothing => None,
            effect => match (effect, plan(self)?) {
                (Effect::Prefix(n), FsOp::Append { path, file, data }) => {
                    let data = data.slice(..n.min(data.len()));
                    Some(FsOp::Append { path, file, data })
                }
                (Effect::LosesPages, FsOp::Sync { path, file } | FsOp::Rewrite { path, file }) => {
                    Some(FsOp::SyncLost { path, file })
                }
                (Effect::Everything, op) => Some(op),
                _ => None,
            },
        };
        if let Some(op) = partial {
            self.run(op)?;
        }
        Err(errno.error())
    }

    /// Pins a file for a handle.
    pub(super) fn pin(&mut self, file: FileId) {
        *self.disk.handles.entry(file).or_default() += 1;
    }

    /// Removes a pin; a file without a name is deleted with its last one.
    pub(super) fn unpin(&mut self, file: FileId) {
        if let Some(count) = self.disk.handles.get_mut(&file) {
            *count -= 1;
            if *count == 0 {
                self.disk.handles.remove(&file);
                self.disk.sweep();
            }
        }
    }
}

impl Vfs for SimVfs {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.create_for(Purpose::Any, path)
    }

    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.create_for(Purpose::Log, path)
    }

    fn create_bulk(&self, path: &Path, direct: bool) -> Result<Box<dyn WritableFile>> {
        let file = self.create_for(Purpose::Bulk, path)?;
        if direct {
            self.state().direct.insert(path.to_owned());
        }
        Ok(file)
    }

    fn resources(&self) -> Resources {
        self.state().resources
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        self.perform(&Call::new(OpKind::Sync, path), "sync", |state| {
            Ok(FsOp::Rewrite {
                path: path.into(),
                file: state.disk.find_file(path)?,
            })
        })
    }

    fn device_space(&self, _: &Path) -> Result<Option<DeviceSpace>> {
        let state = self.state();
        Ok(state.capacity.map(|total| DeviceSpace {
            total,
            available: total.saturating_sub(state.disk.used()),
        }))
    }

    fn open(&self, path: &Path, _access: Access) -> Result<Arc<dyn ReadableFile>> {
        let file = self.open_file(path)?;
        Ok(Arc::new(Reader::new(self.clone(), file, path.into())))
    }

    fn open_to_punch(&self, path: &Path) -> Result<Box<dyn PunchableFile>> {
        let file = self.open_file(path)?;
        Ok(Box::new(Writer::new(
            self.clone(),
            file,
            path.into(),
            Purpose::Any,
        )))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.perform(&Call::new(OpKind::Remove, path), "remove file", |_| {
            Ok(FsOp::Remove { path: path.into() })
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let call = Call {
            to: Some(to),
            ..Call::new(OpKind::Rename, from)
        };
        self.perform(&call, "rename file", |_| {
            Ok(FsOp::Rename {
                from: from.into(),
                to: to.into(),
            })
        })
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let call = Call {
            to: Some(to),
            ..Call::new(OpKind::Link, from)
        };
        self.perform(&call, "link file", |_| {
            Ok(FsOp::Link {
                from: from.into(),
                to: to.into(),
            })
        })
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.observe(&Call::new(OpKind::Stat, path), "stat file", |state| {
            let file = state.disk.find_file(path)?;
            Ok((state.disk.link_count(file), 0))
        })
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.perform(&Call::new(OpKind::SyncDir, dir), "sync directory", |_| {
            Ok(FsOp::SyncDir { path: dir.into() })
        })
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let fail = |e| Error::io(e, "create directory", dir);
        let mut missing = Vec::new();
        let mut path = dir;
        while !parts(path).map_err(fail)?.is_empty()
            && self.state().disk.find(path).map_err(fail)?.is_none()
        {
            missing.push(path);
            path = path.parent().unwrap_or(Path::new(""));
        }
        match self.state().disk.find(path).map_err(fail)? {
            Some(Node::File(_)) if missing.is_empty() => {
                return Err(fail(io::ErrorKind::AlreadyExists.into()));
            }
            Some(Node::File(_)) => return Err(fail(io::ErrorKind::NotADirectory.into())),
            Some(Node::Dir(_)) | None => {}
        }
        for path in missing.into_iter().rev() {
            let call = Call::new(OpKind::CreateDir, path);
            let plan = |_: &State| Ok(FsOp::CreateDir { path: path.into() });
            match self.perform(&call, "create directory", plan) {
                // Another thread created it first.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.perform(
            &Call::new(OpKind::RemoveDir, dir),
            "remove directory",
            |_| Ok(FsOp::RemoveDir { path: dir.into() }),
        )
    }

    fn read_dir(&self, dir: &Path) -> Result<Vec<String>> {
        self.observe(
            &Call::new(OpKind::ReadDir, dir),
            "read directory",
            |state| Ok((state.disk.names(state.disk.find_dir(dir)?), 0)),
        )
    }

    fn size(&self, path: &Path) -> Result<u64> {
        self.observe(&Call::new(OpKind::Stat, path), "stat file", |state| {
            Ok((state.disk.file(state.disk.find_file(path)?)?.size()?, 0))
        })
    }

    fn canonicalize(&self, path: &Path) -> Result<PathBuf> {
        self.observe(&Call::new(OpKind::Stat, path), "find", |state| {
            let names = parts(path)?;
            let there = state.disk.find(path)?.is_some();
            let root = there.then_some("/").ok_or(io::ErrorKind::NotFound)?;
            Ok((std::iter::once(root).chain(names).collect(), 0))
        })
    }

    fn allocated_bytes(&self, path: &Path) -> Result<u64> {
        self.observe(&Call::new(OpKind::Stat, path), "stat file", |state| {
            let file = state.disk.find_file(path)?;
            Ok((state.disk.file(file)?.allocated()?, 0))
        })
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.observe(&Call::new(OpKind::Stat, path), "stat file", |state| {
            Ok((state.disk.find(path)?.is_some(), 0))
        })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        SimLock::take(self, path, |state| {
            if state.disk.find(path)?.is_none() {
                let file = state.disk.next_file();
                state.run(FsOp::Create {
                    path: path.into(),
                    file,
                    purpose: Purpose::Any,
                })?;
            }
            Ok(())
        })
    }

    /// Excludes locks of the same directory alone.
    fn lock_directory(&self, dir: &Path) -> Result<Box<dyn FileLock>> {
        SimLock::take(self, dir, |state| match state.disk.find(dir)? {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }
}

/// The plan of an append.
pub(super) fn append_op(path: &Arc<Path>, file: FileId, data: &[u8]) -> FsOp {
    FsOp::Append {
        path: Arc::clone(path),
        file,
        data: Bytes::copy_from_slice(data),
    }
}
