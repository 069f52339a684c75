//! The volumes of clusters in a program without a client of clusters: it has none.

use std::path::Path;

use anyhow::{Result, bail};
use tifs::kv::{Kv, TikvUrl};
use tifs::volume::Volume;

use super::mounts::Mount;
use super::volumes::{Access, OpenStore};

fn refused<T>(url: &TikvUrl) -> Result<T> {
    bail!("this tifs was built without the feature tikv, so it cannot open {url}")
}

/// There is none.
pub(super) enum NewStore {}

impl NewStore {
    pub(super) fn begin(url: &TikvUrl) -> Result<NewStore> {
        refused(url)
    }

    pub(super) fn store(&self) -> Option<&dyn Kv> {
        match *self {}
    }

    pub(super) fn complete(self) -> Result<()> {
        match self {}
    }
}

pub(super) fn make(url: &TikvUrl) -> Result<Volume> {
    refused(url)
}

pub(super) fn open(url: &TikvUrl, _access: Access) -> Result<Volume> {
    refused(url)
}

pub(super) fn look(url: &TikvUrl) -> Result<Volume> {
    refused(url)
}

pub(super) fn open_store(_path: &Path, url: &TikvUrl) -> Result<OpenStore> {
    refused(url)
}

pub(super) fn mount_of(_url: &TikvUrl) -> Option<Mount> {
    None
}

/// There is none.
pub(super) enum Closing {}

impl Closing {
    pub(super) fn begin(url: &TikvUrl) -> Result<Closing> {
        refused(url)
    }

    pub(super) fn wait(&self) -> Result<bool> {
        match *self {}
    }
}
