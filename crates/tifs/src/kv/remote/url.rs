//! The address of a volume on a cluster.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;

use crate::error::{Error, Result};

/// The quota that etcd has if nobody says another one.
const ROOM: u64 = 2 << 30;

/// The most seconds of a time.
const MOST: u64 = 30 * 24 * 3600;

/// The most bytes of a name.
const NAME_MAX: usize = 64;

/// The kind of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// TiKV, by its placement drivers.
    Tikv,
    /// etcd, with blocks in an object store.
    Etcd,
}

impl Scheme {
    const ALL: [Scheme; 2] = [Scheme::Tikv, Scheme::Etcd];

    fn prefix(self) -> &'static str {
        match self {
            Scheme::Tikv => "tikv://",
            Scheme::Etcd => "etcd://",
        }
    }

    /// The scheme of a text, and the rest of it.
    fn split(text: &str) -> Option<(Scheme, &str)> {
        let split = |scheme: Scheme| Some((scheme, text.strip_prefix(scheme.prefix())?));
        Scheme::ALL.into_iter().find_map(split)
    }

    /// The age of replaced values that are kept.
    fn gc(self) -> Duration {
        match self {
            Scheme::Tikv => Duration::from_secs(3 * 3600),
            // All that is kept counts for the limit of etcd.
            Scheme::Etcd => Duration::from_secs(300),
        }
    }
}

/// `SCHEME://HOST:PORT[,HOST:PORT...]/NAME[?PARAMETER=VALUE[&...]]`: the placement drivers of a
/// TiKV cluster or the members of an etcd cluster, the name of a volume there, and parameters.
///
/// | parameter | has |
/// |---|---|
/// | `ca`, `cert`, `key` | files of TLS in PEM: all three, or none; on etcd also `ca` alone |
/// | `timeout` | the time after which an operation fails that the cluster does not answer: `30s` |
/// | `lease` | the time after which a mount without contact may be replaced: `30s` |
/// | `gc` | the age of replaced values that are dropped: `3h`, `5m` of etcd; or `off` |
/// | `blocks` | of etcd: the object store with the blocks of files |
/// | `room` | of etcd: the bytes of its quota, `2GiB` |
/// | `credentials` | of etcd: a file with lines `NAME=VALUE`, instead of the environment |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteUrl {
    /// The kind of the cluster.
    pub scheme: Scheme,
    /// The addresses of the placement drivers or members, as `HOST:PORT`.
    pub endpoints: Vec<String>,
    /// The name of the volume.
    pub name: String,
    /// The files of TLS. Without them, connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// The time after which an operation fails that the cluster does not answer.
    pub timeout: Duration,
    /// The time after which a mount without contact may be replaced.
    pub lease: Duration,
    /// The age of replaced values that a mount lets the cluster drop; `None` if others do that.
    pub gc: Option<Duration>,
    /// The URL of the object store; empty on TiKV.
    pub blocks: String,
    /// The quota of etcd, in bytes.
    pub room: u64,
    /// The file with credentials.
    pub credentials: Option<PathBuf>,
}

/// The files of TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the authority that signed those of the cluster.
    pub ca: PathBuf,
    /// Those by which the cluster knows the client, if it asks for them.
    pub client: Option<ClientFiles>,
}

/// The files of a client, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// The certificate of the client.
    pub cert: PathBuf,
    /// The private key of the client.
    pub key: PathBuf,
}

#[cfg(any(feature = "etcd", feature = "tikv"))]
impl TlsFiles {
    /// All files.
    pub(in crate::kv) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        let client = { self.client.iter() }.flat_map(|client| [&client.cert, &client.key]);
        std::iter::once(&self.ca).chain(client)
    }
}

impl RemoteUrl {
    /// Whether a text is meant as such an address.
    pub fn is_one(text: &str) -> bool {
        Scheme::split(text).is_some()
    }

    /// The address of a text.
    ///
    /// # Errors
    /// `EINVAL`, with the part that is wrong.
    pub fn parse(text: &str) -> Result<RemoteUrl> {
        Self::parts(text)
            .map_err(|what| Error::new(Errno::INVAL, format!("{}: {what}", shown(text))))
    }

    /// The same; the error is what is wrong.
    fn parts(text: &str) -> Part<RemoteUrl> {
        let split = Scheme::split(text);
        let (scheme, rest) = split.ok_or("the address does not begin with tikv:// or etcd://")?;
        let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, name) = place
            .split_once('/')
            .ok_or("a name of a volume is missing: SCHEME://HOST:PORT/NAME")?;
        if !hosts.split(',').all(is_endpoint) {
            return Err("the hosts are not HOST:PORT, separated by commas".into());
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_plain) {
            let what = "the name of a volume has 1 to 64 letters, digits, '-', '_' and '.'";
            return Err(what.into());
        }
        let mut url = RemoteUrl {
            scheme,
            endpoints: hosts.split(',').map(str::to_owned).collect(),
            name: name.to_owned(),
            tls: None,
            timeout: Duration::from_secs(30),
            lease: Duration::from_secs(30),
            gc: Some(scheme.gc()),
            blocks: String::new(),
            room: ROOM,
            credentials: None,
        };
        let mut files = [None, None, None];
        for parameter in parameters.split('&').filter(|text| !text.is_empty()) {
            url.set(parameter, &mut files)?;
        }
        let is_etcd = scheme == Scheme::Etcd;
        url.tls = match files {
            [None, None, None] => None,
            [Some(ca), Some(cert), Some(key)] => Some(TlsFiles {
                ca,
                client: Some(ClientFiles { cert, key }),
            }),
            [Some(ca), None, None] if is_etcd => Some(TlsFiles { ca, client: None }),
            _ => {
                return Err(
                    "TLS needs all three of ca, cert and key, on etcd also ca alone".into(),
                );
            }
        };
        if is_etcd && url.blocks.is_empty() {
            let what =
                "the object store is missing: ?blocks=file:///DIR or ?blocks=s3://BUCKET/PATH";
            return Err(what.into());
        }
        Ok(url)
    }

    /// Sets a parameter. `files` are those of TLS: `ca`, `cert` and `key`.
    fn set(&mut self, parameter: &str, files: &mut [Option<PathBuf>; 3]) -> Part<()> {
        let is_etcd = self.scheme == Scheme::Etcd;
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let time = |least: u64| {
            let time = humantime::parse_duration(value).ok();
            let time = time.filter(|time| (least..=MOST).contains(&time.as_secs()));
            time.ok_or_else(|| {
                format!("{parameter}: this is no time of {least}s or more, and of 30 days at most")
            })
        };
        match name {
            // A mount in the background leaves the directory, and reads them again later.
            "ca" | "cert" | "key" | "credentials" if !value.starts_with('/') => {
                return Err(format!("{name} needs the path of a file, from the root").into());
            }
            "ca" => files[0] = Some(PathBuf::from(value)),
            "cert" => files[1] = Some(PathBuf::from(value)),
            "key" => files[2] = Some(PathBuf::from(value)),
            "timeout" => self.timeout = time(1)?,
            "lease" => self.lease = time(1)?,
            "gc" if value == "off" => self.gc = None,
            "gc" => self.gc = Some(time(if is_etcd { 60 } else { 600 })?),
            "blocks" if is_etcd => self.blocks = blocks_of(value)?,
            "room" if is_etcd => {
                let room = bytes_of(value);
                let wrong = || format!("{parameter}: this is no size such as 8GiB");
                self.room = room.ok_or_else(wrong)?;
            }
            "credentials" if is_etcd => self.credentials = Some(PathBuf::from(value)),
            _ => {
                let more = match is_etcd {
                    true => ", blocks, room, credentials",
                    false => "",
                };
                let known = "ca, cert, key, timeout, lease, gc";
                let what = format!("there is no parameter {name}; there are: {known}{more}");
                return Err(what.into());
            }
        }
        Ok(())
    }

    /// The address of a volume that is only looked for: on etcd the object store may be missing.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse).
    pub fn parse_place(text: &str) -> Result<RemoteUrl> {
        let is_etcd = matches!(Scheme::split(text), Some((Scheme::Etcd, _)));
        if !is_etcd || text.contains("blocks=") {
            return RemoteUrl::parse(text);
        }
        let separator = if text.contains('?') { '&' } else { '?' };
        RemoteUrl::parse(&format!("{text}{separator}blocks=memory:///"))
    }

    /// Whether both are the same volume, if the addresses name the same hosts.
    pub fn is_same_volume(&self, other: &RemoteUrl) -> bool {
        let volume = |url: &RemoteUrl| {
            let mut hosts = url.endpoints.clone();
            hosts.sort();
            (url.scheme, hosts, url.name.clone())
        };
        volume(self) == volume(other)
    }
}

/// A part of an address, or what is wrong with it.
type Part<T> = std::result::Result<T, Cow<'static, str>>;

/// Whether a text is `HOST:PORT`.
fn is_endpoint(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_host = match inner {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
            !host.is_empty() && host.bytes().all(is_part)
        }
    };
    is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// The part of an address that messages repeat: it has no parameters, and nothing before an `@`,
/// since messages are logged.
fn shown(text: &str) -> &str {
    let place = text.split('?').next().unwrap_or_default();
    place.rsplit('@').next().unwrap_or_default()
}

/// The URL of an object store, if it has no credentials.
fn blocks_of(value: &str) -> std::result::Result<String, String> {
    let Some((scheme, rest)) = value.split_once("://") else {
        return Err("blocks: this is no URL".to_owned());
    };
    if scheme == "s3" {
        let bucket = rest.split('/').next().unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_plain) || rest.contains('@') {
            // The value is not repeated: it may have credentials, and messages are logged.
            return Err("blocks=s3: this is no s3://BUCKET/PATH. Credentials belong to the environment or a file"
                .to_owned());
        }
        return Ok(value.to_owned());
    }
    match scheme {
        "file" | "memory" if rest.starts_with('/') => Ok(value.to_owned()),
        "file" | "memory" => Err(format!("blocks={scheme}: the path is not from the root")),
        _ => Err("blocks: there are file:///DIR and s3://BUCKET/PATH".to_owned()),
    }
}

/// The bytes of a size, as a number with or without MiB or GiB.
fn bytes_of(text: &str) -> Option<u64> {
    let (number, shift) = match (text.strip_suffix("MiB"), text.strip_suffix("GiB")) {
        (Some(number), _) => (number, 20),
        (_, Some(number)) => (number, 30),
        _ => (text, 0),
    };
    let bytes = number.parse::<u64>().ok()?.checked_mul(1 << shift);
    bytes.filter(|bytes| *bytes >= 1 << 20)
}

/// The address without parameters.
impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme.prefix();
        write!(f, "{scheme}{}/{}", self.endpoints.join(","), self.name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    #[test]
    fn an_address_has_hosts_a_name_and_parameters() {
        let url = RemoteUrl::parse("tikv://a:2379,[::1]:2380/v-1?ca=/a&cert=/b&key=/c&lease=5s");
        let url = url.unwrap();
        assert_eq!(url.endpoints, ["a:2379", "[::1]:2380"]);
        assert_eq!(url.name, "v-1");
        let client = url.tls.as_ref().unwrap().client.as_ref();
        assert_eq!(client.unwrap().key, PathBuf::from("/c"));
        assert_eq!((url.lease, url.timeout).0, Duration::from_secs(5));
        assert_eq!(url.to_string(), "tikv://a:2379,[::1]:2380/v-1");
        assert_eq!(RemoteUrl::parse("tikv://a:1/v?gc=off").unwrap().gc, None);
        let same = RemoteUrl::parse("tikv://a:1/v?timeout=9s").unwrap();
        assert!(same.is_same_volume(&RemoteUrl::parse("tikv://a:1/v").unwrap()));
    }

    #[test]
    fn an_address_of_etcd_has_an_object_store() {
        let url = RemoteUrl::parse("etcd://a:1,b:1/v?blocks=file:///b&room=8GiB").unwrap();
        assert_eq!((&url.blocks[..], url.room), ("file:///b", 8 << 30));
        assert_eq!(url.gc, Some(Duration::from_secs(300)));
        assert_eq!(url.to_string(), "etcd://a:1,b:1/v");
        assert!(!url.is_same_volume(&RemoteUrl::parse("tikv://a:1,b:1/v").unwrap()));
        let same = RemoteUrl::parse("etcd://b:1,a:1/v?blocks=file:///b").unwrap();
        assert!(url.is_same_volume(&same));
        let place = RemoteUrl::parse_place("etcd://b:1,a:1/v").unwrap();
        assert!(url.is_same_volume(&place));
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
            ("tikv://user:secret@a:1/v", "HOST:PORT"),
            ("tikv://a:1/v?timeout=1000years", "at most"),
            ("tikv://a:1/v?ca=x", "from the root"),
            ("tikv://a:1/v?ca=/x", "all three"),
            ("tikv://a:1/v?ca=", "needs the path"),
            ("tikv://a:1/v?lease=no", "lease=no"),
            ("tikv://a:1/v?gc=5s", "600s or more"),
            ("tikv://a:1/v?speed=1", "no parameter speed"),
            ("tikv://a:1/v?blocks=file:///b", "no parameter blocks"),
            ("etcd://a:1/v", "object store is missing"),
            ("etcd://a:1/v?blocks=/b", "no URL"),
            ("etcd://a:1/v?blocks=file://b", "from the root"),
            ("etcd://a:1/v?blocks=ftp://b", "s3://BUCKET"),
            (
                "etcd://a:1/v?blocks=s3://id:secret@b",
                "belong to the environment",
            ),
            ("etcd://a:1/v?blocks=file:///b&ca=/a&key=/x", "all three"),
            (
                "etcd://a:1/v?blocks=s3://id:sec/secret@b",
                "belong to the environment",
            ),
            ("etcd://a:1/v?blocks=ftp://id:secret@b", "s3://BUCKET"),
            ("etcd://a:1/v?blocks=file://id:secret@b/x", "from the root"),
            ("etcd://a:1/v?blocks=file:///b&room=1x", "no size"),
        ] {
            let error = RemoteUrl::parse(text).unwrap_err();
            assert_eq!(error.errno(), Errno::INVAL);
            assert!(error.to_string().contains(part), "{text}: {error}");
            assert!(!error.to_string().contains("secret"), "{text}: {error}");
        }
    }
}
