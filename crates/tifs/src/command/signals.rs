//! Signals that end a mount: SIGTERM, SIGINT, SIGHUP.
//!
//! The first one unmounts. If files are open, the mount point goes, and they are served until they
//! are closed. The second one ends the process at once. A signal that arrives while the volume is
//! being mounted takes effect when it is mounted, so that no dead mount is left.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use rustix::io::Errno;
use tifs::fuse::Unmounter;
use tifs::log;
use tifs::volume::Volume;

/// The effect of the next signal.
pub(super) struct Signals {
    state: Arc<Mutex<State>>,
    mountpoint: PathBuf,
}

enum State {
    Mounting,
    Mounted(Unmounter),
    /// There was a signal.
    Ending,
}

impl Signals {
    /// Handles signals while the volume is mounted at `mountpoint`.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(super) fn handle(volume: &Arc<Volume>, mountpoint: &Path) -> Result<Signals> {
        let state = Arc::new(Mutex::new(State::Mounting));
        let signals = Signals {
            state: Arc::clone(&state),
            mountpoint: mountpoint.to_owned(),
        };
        let (volume, mountpoint) = (Arc::clone(volume), mountpoint.to_owned());
        let handler = move || {
            let before = std::mem::replace(&mut *state.lock(), State::Ending);
            match before {
                State::Mounting => {}
                State::Mounted(unmounter) => unmount(&unmounter, &mountpoint),
                State::Ending => end_at_once(&volume),
            }
        };
        ctrlc::set_handler(handler).context("cannot handle signals")?;
        Ok(signals)
    }

    /// The volume is mounted. Unmounts it if there was a signal.
    pub(super) fn mounted(&self, unmounter: Unmounter) {
        let mut state = self.state.lock();
        if let State::Mounting = *state {
            *state = State::Mounted(unmounter);
        } else {
            drop(state);
            unmount(&unmounter, &self.mountpoint);
        }
    }
}

fn unmount(unmounter: &Unmounter, mountpoint: &Path) {
    let unmounted = match unmounter.unmount() {
        Err(e) if e.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            log::record(format_args!(
                "files are open in {}: it is served until they are closed",
                mountpoint.display()
            ));
            unmounter.detach()
        }
        result => result,
    };
    if let Err(error) = unmounted {
        log::record(format_args!(
            "cannot unmount {}: {error}",
            mountpoint.display()
        ));
    }
}

fn end_at_once(volume: &Volume) {
    log::record("ended by a second signal, with files open in the mount");
    // Not closed: programs may still change it, and the counters of a volume that was closed would
    // lack their changes.
    if let Err(error) = volume.sync() {
        log::record(error);
    }
    std::process::exit(1);
}
