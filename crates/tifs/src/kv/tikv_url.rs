//! The address of a volume on a cluster.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;

use crate::error::{Error, Result};

/// The scheme of the addresses.
const SCHEME: &str = "tikv://";

/// The most seconds of a time.
const MOST: u64 = 30 * 24 * 3600;

/// The most bytes of a name.
const NAME_MAX: usize = 64;

/// `tikv://HOST:PORT[,HOST:PORT...]/NAME[?PARAMETER=VALUE[&...]]`: the placement drivers of a
/// cluster, the name of a volume there, and parameters.
///
/// | parameter | has |
/// |---|---|
/// | `ca`, `cert`, `key` | files of TLS in PEM: all three, or none |
/// | `timeout` | the time after which an operation fails that the cluster does not answer: `30s` |
/// | `lease` | the time after which a mount without contact may be replaced: `30s` |
/// | `gc` | the age of replaced values that a mount lets the cluster drop: `3h`; or `off` |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TikvUrl {
    /// The addresses of the placement drivers, as `HOST:PORT`.
    pub endpoints: Vec<String>,
    /// The name of the volume.
    pub name: String,
    /// The files of TLS. Without them, connections are not encrypted.
    pub tls: Option<TikvTls>,
    /// The time after which an operation fails that the cluster does not answer.
    pub timeout: Duration,
    /// The time after which a mount without contact may be replaced.
    pub lease: Duration,
    /// The age of replaced values that a mount lets the cluster drop; `None` if others do that.
    pub gc: Option<Duration>,
}

/// The files of TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TikvTls {
    /// The certificate of the authority that signed those of the cluster.
    pub ca: PathBuf,
    /// The certificate of the client.
    pub cert: PathBuf,
    /// The private key of the client.
    pub key: PathBuf,
}

impl TikvUrl {
    /// Whether a text is meant as such an address.
    pub fn is_one(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// The address of a text.
    ///
    /// # Errors
    /// `EINVAL`, with the part that is wrong.
    pub fn parse(text: &str) -> Result<TikvUrl> {
        let wrong = |what: &str| Error::new(Errno::INVAL, format!("{text}: {what}"));
        let rest = text.strip_prefix(SCHEME);
        let rest = rest.ok_or_else(|| wrong("the address does not begin with tikv://"))?;
        let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, name) = place
            .split_once('/')
            .ok_or_else(|| wrong("a name of a volume is missing: tikv://HOST:PORT/NAME"))?;
        let is_name = |host: &str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
            !host.is_empty() && host.bytes().all(is_part)
        };
        let is_endpoint = |host: &str| {
            let Some((host, port)) = host.rsplit_once(':') else {
                return false;
            };
            let inner = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'));
            let is_host = match inner {
                Some(address) => address.parse::<Ipv6Addr>().is_ok(),
                None => is_name(host),
            };
            is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
        };
        if !hosts.split(',').all(is_endpoint) {
            return Err(wrong(
                "the placement drivers are not HOST:PORT, separated by commas",
            ));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_plain) {
            return Err(wrong(
                "the name of a volume has 1 to 64 letters, digits, '-', '_' and '.'",
            ));
        }
        let mut url = TikvUrl {
            endpoints: hosts.split(',').map(str::to_owned).collect(),
            name: name.to_owned(),
            tls: None,
            timeout: Duration::from_secs(30),
            lease: Duration::from_secs(30),
            gc: Some(Duration::from_secs(3 * 3600)),
        };
        let mut files = [None, None, None];
        for parameter in parameters.split('&').filter(|text| !text.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let time = |least: u64| {
                let time = humantime::parse_duration(value).ok();
                let time = time.filter(|time| (least..=MOST).contains(&time.as_secs()));
                time.ok_or_else(|| {
                    wrong(&format!(
                        "{parameter}: this is no time of {least}s or more, and of 30 days at most"
                    ))
                })
            };
            match name {
                // A mount in the background leaves the directory, and reads them again later.
                "ca" | "cert" | "key" if !value.starts_with('/') => {
                    return Err(wrong(&format!(
                        "{name} needs the path of a file, from the root"
                    )));
                }
                "ca" => files[0] = Some(PathBuf::from(value)),
                "cert" => files[1] = Some(PathBuf::from(value)),
                "key" => files[2] = Some(PathBuf::from(value)),
                "timeout" => url.timeout = time(1)?,
                "lease" => url.lease = time(1)?,
                "gc" if value == "off" => url.gc = None,
                "gc" => url.gc = Some(time(600)?),
                _ => {
                    return Err(wrong(&format!(
                        "there is no parameter {name}; there are: ca, cert, key, timeout, lease, gc"
                    )));
                }
            }
        }
        url.tls = match files {
            [None, None, None] => None,
            [Some(ca), Some(cert), Some(key)] => Some(TikvTls { ca, cert, key }),
            _ => return Err(wrong("TLS needs all three of ca, cert and key")),
        };
        Ok(url)
    }

    /// Whether both are the same volume, if the addresses name the cluster in the same way.
    pub fn is_same_volume(&self, other: &TikvUrl) -> bool {
        self.endpoints == other.endpoints && self.name == other.name
    }
}

/// The address without parameters.
impl fmt::Display for TikvUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.endpoints.join(","), self.name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    #[test]
    fn an_address_has_hosts_a_name_and_parameters() {
        let url = TikvUrl::parse("tikv://a:2379,[::1]:2380/v-1?ca=/a&cert=/b&key=/c&lease=5s");
        let url = url.unwrap();
        assert_eq!(url.endpoints, ["a:2379", "[::1]:2380"]);
        assert_eq!(url.name, "v-1");
        assert_eq!(url.tls.as_ref().unwrap().key, PathBuf::from("/c"));
        assert_eq!((url.lease, url.timeout).0, Duration::from_secs(5));
        assert_eq!(url.to_string(), "tikv://a:2379,[::1]:2380/v-1");
        assert_eq!(TikvUrl::parse("tikv://a:1/v?gc=off").unwrap().gc, None);
        let same = TikvUrl::parse("tikv://a:1/v?timeout=9s").unwrap();
        assert!(same.is_same_volume(&TikvUrl::parse("tikv://a:1/v").unwrap()));
    }

    #[test]
    fn a_wrong_part_is_named() {
        for (text, part) in [
            ("tikv:/a:1/v", "tikv://"),
            ("tikv://a:1", "a name of a volume is missing"),
            ("tikv://a:1/", "1 to 64 letters"),
            ("tikv://a:1/a/b", "1 to 64 letters"),
            ("tikv://a/v", "HOST:PORT"),
            ("tikv://a:1,/v", "HOST:PORT"),
            ("tikv://a:0/v", "HOST:PORT"),
            ("tikv://user@a:1/v", "HOST:PORT"),
            ("tikv://a:1/v?timeout=1000years", "at most"),
            ("tikv://a:1/v?ca=x", "from the root"),
            ("tikv://a:1/v?ca=/x", "all three"),
            ("tikv://a:1/v?ca=", "needs the path"),
            ("tikv://a:1/v?lease=no", "lease=no"),
            ("tikv://a:1/v?gc=5s", "600s or more"),
            ("tikv://a:1/v?speed=1", "no parameter speed"),
        ] {
            let error = TikvUrl::parse(text).unwrap_err();
            assert_eq!(error.errno(), Errno::INVAL);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
}
