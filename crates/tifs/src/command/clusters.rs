//! Opens the volume of a cluster, or makes one.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tifs::fuse::FileClock;
use tifs::kv::{Holder, Kv, Space, TikvKv, TikvUrl};
use tifs::schema::Key;
use tifs::volume::{AccessTime, HostSpace, Volume, VolumeOptions};

use super::mounts::{self, Mount};
use super::output;
use super::volumes::{Access, OpenStore};

/// The room that is shown: nobody tells how much a cluster has. A full one refuses writes.
const ROOM: u64 = 1 << 50;

/// A store without a volume, which the caller makes. Unless it is completed, dropping it removes
/// everything that was stored.
pub(super) struct NewStore(Option<TikvKv>);

impl NewStore {
    /// Takes the name of an address.
    pub(super) fn begin(url: &TikvUrl) -> Result<NewStore> {
        let store = TikvKv::open(url)?;
        match store.begin_making(&Key::Superblock.encode()) {
            Ok(()) => Ok(NewStore(Some(store))),
            Err(error) => {
                // Why no volume is made is the error to report.
                let _ = store.close();
                Err(error.into())
            }
        }
    }

    pub(super) fn store(&self) -> Option<&dyn Kv> {
        self.0.as_ref().map(|store| store as _)
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
            // What is left is removed when the volume is made again.
            let _ = store.undo_making(&Key::Superblock.encode());
            let _ = store.close();
        }
    }
}

/// Makes a volume.
pub(super) fn make(url: &TikvUrl) -> Result<Volume> {
    let new = NewStore::begin(url)?;
    let options = options(Access::Write(AccessTime::default()))?;
    if let Some(store) = new.store() {
        let made = Volume::make(store, &options);
        made.with_context(|| format!("cannot make the volume {url}"))?;
    }
    new.complete()?;
    open(url, Access::Write(AccessTime::default()))
}

/// Opens a volume, which no other process may write meanwhile.
pub(super) fn open(url: &TikvUrl, access: Access) -> Result<Volume> {
    let store = Arc::new(TikvKv::open(url)?);
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

/// Opens a volume for reading only, whoever has it.
pub(super) fn look(url: &TikvUrl) -> Result<Volume> {
    let store = Arc::new(TikvKv::open_read_only(url)?);
    open_in(&store, url, Access::Read(AccessTime::Never))
}

fn open_in(store: &Arc<TikvKv>, url: &TikvUrl, access: Access) -> Result<Volume> {
    check_made(store, url)?;
    let opened = Volume::open(Arc::clone(store) as _, options(access)?);
    opened.with_context(|| format!("cannot open the volume {url}"))
}

fn options(access: Access) -> Result<VolumeOptions> {
    let clock = FileClock::new().context("cannot make the clock of files")?;
    Ok(VolumeOptions {
        clock: Arc::new(clock),
        access_time: access.time(),
        read_only: access.is_read_only(),
        host_space: Arc::new(|| {
            Ok(HostSpace {
                total: ROOM,
                free: ROOM,
                available: ROOM,
            })
        }),
        ..VolumeOptions::default()
    })
}

/// # Errors
/// There is no volume of that name.
fn check_made(store: &TikvKv, url: &TikvUrl) -> Result<()> {
    match store.get(Space::Meta, &Key::Superblock.encode())? {
        Some(_) => Ok(()),
        None => Err(anyhow!(
            "the cluster has no volume {}: tifs mkfs with the same address makes one",
            url.name
        )),
    }
}

/// Opens the store of a volume for reading, as of now. What programs have written to a mount here
/// is made durable before; of another one, a warning says that it may be missing.
pub(super) fn open_store(path: &Path, url: &TikvUrl) -> Result<OpenStore> {
    let store = TikvKv::open_read_only(url)?;
    check_made(&store, url)?;
    if let Some(mount) = mount_of(url) {
        mounts::sync(&mount.mountpoint)
            .with_context(|| format!("cannot sync {} first", mount.mountpoint.display()))?;
    } else if let Some(holder) = store.holder()? {
        output::warn(&format!(
            "the volume is in use by {holder}: what its programs wrote last and did not sync may be missing"
        ));
    }
    Ok(OpenStore {
        store: Arc::new(store),
        dir: path.to_owned(),
        log_damage: None,
        moment: None,
    })
}

/// The mount of a volume on this machine.
pub(super) fn mount_of(url: &TikvUrl) -> Option<Mount> {
    let mounts = mounts::all().unwrap_or_default().into_iter();
    { mounts }.find(|mount| {
        let source = mount.source.to_str().map(TikvUrl::parse);
        mount.is_tifs() && source.is_some_and(|of| of.is_ok_and(|of| of.is_same_volume(url)))
    })
}

/// The wait until the process of a mount that is taken away has closed the volume.
pub(super) struct Closing {
    store: TikvKv,
    holder: Option<Holder>,
    patience: Duration,
}

impl Closing {
    /// Notes who has the volume now.
    pub(super) fn begin(url: &TikvUrl) -> Result<Closing> {
        let store = TikvKv::open_read_only(url)?;
        Ok(Closing {
            // A mount that lost the volume to another machine has nothing to close.
            holder: store.holder()?.filter(|holder| holder.is_here),
            store,
            patience: 4 * url.timeout,
        })
    }

    /// Waits. False if the volume is still in use after the time that closing it may take.
    pub(super) fn wait(&self) -> Result<bool> {
        let began = Instant::now();
        while self.holder.is_some() && self.store.holder()? == self.holder {
            if began.elapsed() >= self.patience {
                return Ok(false);
            }
            // The cluster does not tell when a key goes.
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(true)
    }
}
