//! Opens the volume of a cluster, or makes one.
//!
//! A process that takes the session of a volume ends that of a mount which was stopped for longer
//! than its lease, and would go on otherwise. So only these take one:
//!
//! | command | takes |
//! |---|---|
//! | `mount`, also one that only reads | the session |
//! | `mkfs`, `load`, `clone` to a cluster | the session, once a reader found no volume |
//! | `fsck`, `dump`, `stats`, `clone` from a cluster | a reader |
//! | `fsck` of a clean volume, to delete objects | the session, if the last one was given up |
//! | `umount` | nothing: it asks who has the session |

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tifs::fuse::FileClock;
use tifs::kv::{
    AskHolder, Holder, Kv, RemoteKv, RemoteUrl, Room, Space, begin_making, connect_to_ask,
    open_remote, open_remote_read_only, undo_making,
};
use tifs::schema::Key;
use tifs::volume::{AccessTime, HostSpace, Volume, VolumeOptions};

use super::mounts::{self, Mount};
use super::output;
use super::volumes::{Access, OpenStore, is_served};

/// The room that is shown: a TiKV cluster does not tell how much it has, and a full one refuses
/// writes.
const ROOM: u64 = 1 << 50;

/// A store without a volume, which the caller makes. Unless it is completed, dropping it removes
/// everything that was stored.
pub(super) struct NewStore(Option<Arc<dyn RemoteKv>>);

impl NewStore {
    /// Takes the name of an address.
    pub(super) fn begin(url: &RemoteUrl) -> Result<NewStore> {
        refuse_made(url)?;
        let store = open_remote(url)?;
        match begin_making(&*store, &Key::Superblock.encode()) {
            Ok(()) => Ok(NewStore(Some(store))),
            Err(error) => {
                // Why no volume is made is the error to report.
                let _ = store.close();
                Err(error.into())
            }
        }
    }

    pub(super) fn store(&self) -> Option<&dyn Kv> {
        self.0.as_ref().map(|store| &**store as _)
    }

    /// The volume is complete.
    pub(super) fn complete(mut self) -> Result<()> {
        if let Some(store) = &self.0 {
            store.finish_making()?;
        }
        let store = self.0.take();
        if let Some(Err(error)) = store.map(|store| store.close()) {
            output::warn(&format!(
                "the volume is complete, but this command could not give it up: {error}"
            ));
        }
        Ok(())
    }
}

impl Drop for NewStore {
    fn drop(&mut self) {
        if let Some(store) = &self.0 {
            // The rest is removed when the volume is made again.
            let _ = undo_making(&**store, &Key::Superblock.encode());
            let _ = store.close();
        }
    }
}

/// Makes a volume.
pub(super) fn make(url: &RemoteUrl) -> Result<Volume> {
    let new = NewStore::begin(url)?;
    if let Some(store) = &new.0 {
        let options = options(store, Access::Write(AccessTime::default()))?;
        let made = Volume::make(&**store, &options);
        made.with_context(|| format!("cannot make the volume {url}"))?;
    }
    new.complete()?;
    open(url, Access::Write(AccessTime::default()))
}

/// Opens a volume, which no other process may write meanwhile.
pub(super) fn open(url: &RemoteUrl, access: Access) -> Result<Volume> {
    let store = open_remote(url)?;
    let opened = open_in(&store, url, access).and_then(|volume| {
        // It is a whole one, even if its maker did not come to say so.
        store.finish_making()?;
        Ok(volume)
    });
    if opened.is_err() {
        // Why it cannot be opened is the error to report.
        let _ = store.close();
    }
    opened
}

/// Opens a volume for reading only, even if a process has it.
pub(super) fn look(url: &RemoteUrl) -> Result<Volume> {
    let store = open_remote_read_only(url)?;
    open_in(&store, url, Access::Read(AccessTime::Never))
}

fn open_in(store: &Arc<dyn RemoteKv>, url: &RemoteUrl, access: Access) -> Result<Volume> {
    check_made(&**store, url)?;
    let opened = Volume::open(Arc::clone(store) as _, options(store, access)?);
    opened.with_context(|| format!("cannot open the volume {url}"))
}

fn options(store: &Arc<dyn RemoteKv>, access: Access) -> Result<VolumeOptions> {
    let clock = FileClock::new().context("cannot make the clock of files")?;
    let store = Arc::clone(store);
    let ask_each = VolumeOptions::default().ask_each;
    Ok(VolumeOptions {
        clock: Arc::new(clock),
        access_time: access.time(),
        read_only: access.is_read_only(),
        ask_each: { store.room_at_once() }.map_or(ask_each, |at_once| at_once.min(ask_each)),
        host_space: Arc::new(move || {
            let free = store.room()?.map_or(ROOM, free_of);
            Ok(HostSpace {
                total: ROOM,
                free,
                available: free,
            })
        }),
        ..VolumeOptions::default()
    })
}

/// The part of [`ROOM`] that a cluster with a quota has left. Most of a file is elsewhere, so the
/// quota itself is no measure of the bytes that fit.
fn free_of(room: Room) -> u64 {
    let rest = room.total.saturating_sub(room.used);
    let part = u128::from(ROOM) * u128::from(rest) / u128::from(room.total.max(1));
    u64::try_from(part).unwrap_or(ROOM)
}

/// # Errors
/// There is no volume of that name.
fn check_made(store: &dyn RemoteKv, url: &RemoteUrl) -> Result<()> {
    match store.get(Space::Meta, &Key::Superblock.encode())? {
        Some(_) => Ok(()),
        None => Err(anyhow!(
            "the cluster has no volume {}: tifs mkfs with the same address makes one",
            url.name
        )),
    }
}

/// # Errors
/// There is a volume of that name.
fn refuse_made(url: &RemoteUrl) -> Result<()> {
    let store = open_remote_read_only(url)?;
    if store.get(Space::Meta, &Key::Superblock.encode())?.is_none() {
        return Ok(());
    }
    let holder = store.holder()?;
    let by = holder.map_or(String::new(), |holder| format!(", in use by {holder}"));
    bail!("the cluster has a volume {} already{by}", url.name)
}

/// Opens the store of a volume for reading, as of now. What programs have written to a mount here
/// is made durable before; of another one, a warning says that it may be missing.
pub(super) fn open_store(path: &Path, url: &RemoteUrl) -> Result<OpenStore> {
    let store = open_remote_read_only(url)?;
    check_made(&*store, url)?;
    let synced = mount_of(url).map(|mount| sync(mount, url.timeout));
    if let Some(Synced::NoAnswer(mountpoint)) = &synced {
        output::warn(&format!(
            "the mount at {} does not answer: the last writes of its programs may be missing, unless they were synced",
            mountpoint.display()
        ));
    } else if let Some(Synced::Done(synced)) = synced {
        synced?;
    } else if let Some(holder) = store.holder()? {
        output::warn(&format!(
            "the volume is in use by {holder}: the last writes of its programs may be missing, unless they were synced"
        ));
    }
    Ok(OpenStore {
        store,
        dir: path.to_owned(),
        log_damage: None,
        moment: None,
    })
}

/// The end of an attempt to make the content of a mount durable.
enum Synced {
    Done(Result<()>),
    /// Nobody serves the mount: one whose process was killed has nothing to sync.
    NotServed,
    /// The process that serves the mount may be stopped, as the table of mounts does not tell.
    NoAnswer(PathBuf),
}

/// Makes durable what programs have written to a mount, as long as the mount answers in time.
fn sync(mount: Mount, patience: Duration) -> Synced {
    let asked = |mount: Mount| beside(move || is_served(&mount));
    match asked(mount.clone()).recv_timeout(patience) {
        Ok(true) => {}
        Ok(false) => return Synced::NotServed,
        Err(_) => return Synced::NoAnswer(mount.mountpoint),
    }
    let mountpoint = mount.mountpoint.clone();
    let told = beside(move || mounts::sync(&mountpoint));
    loop {
        match told.recv_timeout(patience) {
            Ok(synced) => {
                let mountpoint = mount.mountpoint.display();
                let synced = synced.with_context(|| format!("cannot sync {mountpoint} first"));
                return Synced::Done(synced);
            }
            // There may be much to write.
            Err(RecvTimeoutError::Timeout)
                if asked(mount.clone()).recv_timeout(patience) == Ok(true) => {}
            Err(_) => return Synced::NoAnswer(mount.mountpoint),
        }
    }
}

/// Tells the result of a call in a thread of its own. One that the kernel does not let go ends with
/// this process.
fn beside<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        // Nobody may wait any more.
        let _ = tell.send(call());
    });
    told
}

/// The mount of a volume on this machine.
pub(super) fn mount_of(url: &RemoteUrl) -> Option<Mount> {
    let mounts = mounts::all().unwrap_or_default().into_iter();
    { mounts }.find(|mount| {
        let source = mount.source.to_str().map(RemoteUrl::parse);
        mount.is_tifs() && source.is_some_and(|of| of.is_ok_and(|of| of.is_same_volume(url)))
    })
}

/// The wait until the process of a mount that is taken away has closed the volume.
pub(super) struct Closing {
    ask: AskHolder,
    holder: Option<Holder>,
    patience: Duration,
}

impl Closing {
    /// Notes the process that has the volume now.
    pub(super) fn begin(url: &RemoteUrl) -> Result<Closing> {
        let ask = connect_to_ask(url)?;
        Ok(Closing {
            // A mount that lost the volume to another machine has nothing to close.
            holder: ask()?.filter(|holder| holder.is_here),
            ask,
            patience: 4 * url.timeout,
        })
    }

    /// Waits. False if the volume is still in use after the time that closing it may take.
    pub(super) fn wait(&self) -> Result<bool> {
        let began = Instant::now();
        while self.holder.is_some() && (self.ask)()? == self.holder {
            if began.elapsed() >= self.patience {
                return Ok(false);
            }
            // The cluster does not tell when a key goes.
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(true)
    }
}
