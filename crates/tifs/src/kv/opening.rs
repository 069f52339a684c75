//! Opens the store of a volume on a cluster of any kind.

use std::sync::Arc;

use super::remote::url::{RemoteUrl, Scheme};
use super::remote::{AskHolder, RemoteKv};
#[cfg(not(all(feature = "etcd", feature = "tikv")))]
use crate::error::Error;
use crate::error::Result;

/// Opens the store of a volume, and takes the right to write it. There need not be a volume yet.
///
/// # Errors
/// `EBUSY` if another process has it, and says which; `ETIMEDOUT` if the cluster does not answer;
/// `ENOSYS` if this program has no client of such a cluster.
pub fn open_remote(url: &RemoteUrl) -> Result<Arc<dyn RemoteKv>> {
    match url.scheme {
        #[cfg(feature = "tikv")]
        Scheme::Tikv => Ok(Arc::new(super::tikv::TikvKv::open(url)?)),
        #[cfg(feature = "etcd")]
        Scheme::Etcd => Ok(Arc::new(super::etcd::EtcdKv::open(url)?)),
        #[cfg(not(all(feature = "etcd", feature = "tikv")))]
        scheme => Err(without(scheme, url)),
    }
}

/// Opens the store of a volume for reading. Another process may write it meanwhile, so only
/// [snapshots](super::Kv::snapshot) are of one moment.
///
/// # Errors
/// `ETIMEDOUT` if the cluster does not answer; `ENOSYS` as before.
pub fn open_remote_read_only(url: &RemoteUrl) -> Result<Arc<dyn RemoteKv>> {
    match url.scheme {
        #[cfg(feature = "tikv")]
        Scheme::Tikv => Ok(Arc::new(super::tikv::TikvKv::open_read_only(url)?)),
        #[cfg(feature = "etcd")]
        Scheme::Etcd => Ok(Arc::new(super::etcd::EtcdKv::open_read_only(url)?)),
        #[cfg(not(all(feature = "etcd", feature = "tikv")))]
        scheme => Err(without(scheme, url)),
    }
}

/// Deletes what nothing names of a volume, and returns how much there was. `None` if there can be
/// nothing, or if a process has the volume, or had it and did not give it up.
///
/// # Errors
/// As for [`open_remote`], but for `EBUSY`.
pub fn collect(url: &RemoteUrl) -> Result<Option<u64>> {
    match url.scheme {
        #[cfg(feature = "etcd")]
        Scheme::Etcd => super::etcd::collect(url),
        _ => Ok(None),
    }
}

/// Connects to a cluster, only to ask which process may write a volume: no object store is needed.
///
/// # Errors
/// `ETIMEDOUT` if the cluster does not answer; `ENOSYS` as before.
pub fn connect_to_ask(url: &RemoteUrl) -> Result<AskHolder> {
    #[cfg(feature = "etcd")]
    if url.scheme == Scheme::Etcd {
        return super::etcd::connect_to_ask(url);
    }
    let store = open_remote_read_only(url)?;
    Ok(Box::new(move || store.holder()))
}

#[cfg(not(all(feature = "etcd", feature = "tikv")))]
fn without(scheme: Scheme, url: &RemoteUrl) -> Error {
    let feature = match scheme {
        Scheme::Tikv => "tikv",
        Scheme::Etcd => "etcd",
    };
    let what =
        format!("this tifs was built without the feature {feature}, so it cannot open {url}");
    Error::new(rustix::io::Errno::NOSYS, what)
}
