//! Places of sides, as the user gives them.

use std::path::PathBuf;
use std::time::Duration;

use crate::open;
use crate::store::AnyClock;

/// The beginning of the addresses of nodes and clusters.
const SCHEME: &str = "tikv://";

/// The place of a side, as the user gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Directory(PathBuf),
    /// The addresses of placement drivers, as `HOST:PORT`.
    Cluster(Vec<String>),
}

impl Place {
    /// Parses an argument: `tikv://HOST:PORT[,HOST:PORT]`, or else a directory.
    pub(crate) fn parse(text: &str) -> Result<Place, String> {
        let Some(addresses) = text.strip_prefix(SCHEME) else {
            return Ok(Place::Directory(text.into()));
        };
        let addresses: Vec<String> = addresses.split(',').map(str::to_owned).collect();
        let is_address = |address: &String| {
            let parts = address.rsplit_once(':');
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        match addresses.iter().all(is_address) {
            true => Ok(Place::Cluster(addresses)),
            false => Err(format!("expected {SCHEME}HOST:PORT[,HOST:PORT]")),
        }
    }

    /// Whether there is no store in the directory.
    pub(crate) fn is_missing(&self) -> bool {
        match self {
            Place::Directory(dir) => !open::has_database(dir),
            Place::Cluster(_) => false,
        }
    }
}

/// The way to a cluster.
#[derive(clap::Args)]
pub(crate) struct Network {
    /// File of the authorities of a cluster with TLS, in PEM.
    #[arg(long, value_name = "FILE", requires_all = ["cert", "key"])]
    pub(super) ca: Option<PathBuf>,
    /// File of this client's certificate, in PEM. Needed even if the cluster asks for none.
    #[arg(long, value_name = "FILE", requires = "ca")]
    pub(super) cert: Option<PathBuf>,
    /// File of this client's private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "ca")]
    pub(super) key: Option<PathBuf>,
    /// Longest wait for a cluster that does not answer, or for a lock in it.
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) patience: u64,
}

impl Network {
    #[cfg_attr(not(feature = "tikv"), expect(dead_code, reason = "no network"))]
    pub(super) fn patience(&self) -> Duration {
        Duration::from_secs(self.patience)
    }
}

/// The use of a side.
#[derive(Clone, Copy)]
pub(crate) enum Access<'a> {
    Read,
    /// Writes too. A missing store is made.
    Write(&'a AnyClock),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_directory_or_addresses() {
        let cluster = |addresses: &[&str]| {
            let addresses = addresses.iter().map(|address| (*address).to_owned());
            Ok(Place::Cluster(addresses.collect()))
        };
        assert_eq!(Place::parse("tikv://a:1"), cluster(&["a:1"]));
        let two = cluster(&["a:1", "[::1]:2379"]);
        assert_eq!(Place::parse("tikv://a:1,[::1]:2379"), two);
        for wrong in [
            "tikv://",
            "tikv://a",
            "tikv://:1",
            "tikv://a:1,",
            "tikv://a:99999",
        ] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
        for dir in ["tikv:/a:1", "history.db", "a:1"] {
            assert_eq!(Place::parse(dir), Ok(Place::Directory(dir.into())));
        }
    }
}
