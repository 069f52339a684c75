//! The blocks of files, each an object of its own in an object store.
//!
//! The metadata have for each block the number of its object, its length and its checksum. A new
//! content is a new object, so a read of an older revision finds the older one, and a small write
//! costs one block.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error as StoreError, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutOptions, RetryConfig,
};
use rustix::io::Errno;
use tokio::time::{Instant, sleep, timeout};
use xxhash_rust::xxh3::xxh3_64;

use super::credentials::Credentials;
use super::failures::causes;
use crate::error::{Error, Result};
use crate::kv::RemoteUrl;
use crate::kv::remote::patience::Patience;

/// The first byte of a value, as of all that a volume stores.
const FORMAT: u8 = 1;
/// The time after which a request is given up.
const ATTEMPT: Duration = Duration::from_secs(10);
/// For how long an object may be missing that was written a moment ago.
const MISSING: Duration = Duration::from_secs(3);
/// The first and the longest wait between two attempts.
const WAITS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// Objects in one folder.
const FOLDER: u64 = 4096;

/// The value that the metadata have for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) length: u32,
    hash: u64,
    /// The revision at which the session began that wrote it.
    pub(super) session: u64,
    number: u64,
}

impl Object {
    const LENGTH: usize = 29;

    pub(super) fn encode(self) -> Bytes {
        let mut value = vec![FORMAT];
        value.extend_from_slice(&self.length.to_be_bytes());
        for number in [self.hash, self.session, self.number] {
            value.extend_from_slice(&number.to_be_bytes());
        }
        value.into()
    }

    /// # Errors
    /// `EIO` if it was not written so.
    pub(super) fn decode(value: &[u8]) -> Result<Object> {
        let wrong = || Error::damage("the metadata of a block cannot be read");
        let number = |from: usize| {
            let bytes = value.get(from..from + 8)?.try_into().ok()?;
            Some(u64::from_be_bytes(bytes))
        };
        if value.len() != Object::LENGTH || value[0] != FORMAT {
            return Err(wrong());
        }
        let length = value[1..5].try_into().map_err(|_| wrong())?;
        Ok(Object {
            length: u32::from_be_bytes(length),
            hash: number(5).ok_or_else(wrong)?,
            session: number(13).ok_or_else(wrong)?,
            number: number(21).ok_or_else(wrong)?,
        })
    }
}

/// A block in the object store.
pub(super) struct Listed {
    pub(super) path: Path,
    pub(super) key: Vec<u8>,
    pub(super) session: u64,
}

/// The directory of an object store.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Root {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Root {
    fn find(path: PathBuf) -> std::io::Result<Root> {
        let found = std::fs::metadata(&path)?;
        Ok(Root {
            path,
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

/// The objects of a volume.
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    /// The directory of `store`, if it is one.
    root: Option<Root>,
    /// The address, for messages.
    place: String,
    /// The folder of all volumes.
    above: Path,
    name: String,
    /// The number that no other volume of any name and cluster has.
    identity: OnceLock<u64>,
    next: AtomicU64,
    pub(super) patience: Patience,
    /// The time after which an attempt is given up.
    attempt: Duration,
}

impl Objects {
    /// Opens the object store of an address. A directory that is missing is made if it may be.
    ///
    /// # Errors
    /// `EINVAL` if the address or the credentials are wrong.
    pub(super) fn open(url: &RemoteUrl, may_make: bool) -> Result<Objects> {
        let wrong = |what: String| Error::new(Errno::INVAL, format!("{}: {what}", url.blocks));
        let (scheme, rest) = url.blocks.split_once("://").unwrap_or_default();
        let mut root = None;
        let (store, above): (Arc<dyn ObjectStore>, &str) = match scheme {
            // There is nothing to read, as the sign that is missing tells.
            "file" if !may_make && !std::path::Path::new(rest).exists() => {
                (Arc::new(InMemory::new()), "")
            }
            "file" => {
                if may_make {
                    let made = std::fs::create_dir_all(rest);
                    made.map_err(|e| wrong(crate::error::reason(&e)))?;
                }
                let found = Root::find(rest.into());
                root = Some(found.map_err(|e| wrong(crate::error::reason(&e)))?);
                let store = LocalFileSystem::new_with_prefix(rest);
                let store = store.map_err(|e| wrong(causes(&e)))?;
                // ORDER: an object is durable before a commit names it.
                (Arc::new(store.with_fsync(true)), "")
            }
            "s3" => {
                let (bucket, above) = rest.split_once('/').unwrap_or((rest, ""));
                (Arc::new(s3(bucket, url)?), above)
            }
            _ => (memory(), rest),
        };
        let above = Path::parse(above.trim_matches('/'));
        Ok(Objects {
            store,
            // A write to a disk goes on when it is given up, and the next attempt is as slow.
            attempt: match root {
                Some(_) => url.timeout,
                None => ATTEMPT,
            },
            root,
            place: url.blocks.clone(),
            above: above.map_err(|e| wrong(e.to_string()))?,
            name: url.name.clone(),
            identity: OnceLock::new(),
            next: AtomicU64::new(0),
            patience: Patience::new(url.timeout),
        })
    }

    pub(super) fn identity(&self) -> Option<u64> {
        self.identity.get().copied()
    }

    pub(super) fn identify(&self, identity: u64) {
        self.identity.get_or_init(|| identity);
    }

    /// The folder of the volume.
    fn folder(&self, identity: u64) -> Path {
        self.above
            .clone()
            .join(format!("{}-{identity:016x}", self.name))
    }

    /// The object that shows that this is the object store of a volume.
    fn sign(&self, identity: u64) -> Path {
        self.folder(identity).join("volume")
    }

    /// The path of a block's object. It has the key, so that a list shows the key that should name
    /// it.
    pub(super) fn path(&self, key: &[u8], object: &Object) -> Result<Path> {
        let identity = self.identity();
        let identity = identity.ok_or_else(|| Error::corrupt("the volume has no object store"))?;
        let folder = object.number / FOLDER;
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(self
            .folder(identity)
            .join(format!("{:x}-{folder:x}", object.session))
            .join(format!("{:x}-{key}", object.number)))
    }

    /// The key and the session of a path; `None` of one that is no block's.
    fn parse(path: &Path) -> Option<(Vec<u8>, u64)> {
        let mut parts: Vec<String> = path.parts().map(|part| part.as_ref().to_owned()).collect();
        let (last, folder) = (parts.pop()?, parts.pop()?);
        let session = u64::from_str_radix(folder.split_once('-')?.0, 16).ok()?;
        let (_, key) = last.split_once('-')?;
        let byte = |at: usize| u8::from_str_radix(key.get(at..at + 2)?, 16).ok();
        let key: Option<Vec<u8>> = (0..key.len()).step_by(2).map(byte).collect();
        Some((key?, session))
    }

    /// Writes the sign of a volume.
    pub(super) async fn write_sign(&self, identity: u64) -> Result<()> {
        let path = self.sign(identity);
        let content = Bytes::from_static(b"TiFS\n");
        let put = async || {
            self.store
                .put(&path, content.clone().into())
                .await
                .map(drop)
        };
        self.until_done(Duration::ZERO, put).await
    }

    /// # Errors
    /// `EINVAL` if this is not the object store of a volume.
    pub(super) async fn check_sign(&self, identity: u64) -> Result<()> {
        let path = self.sign(identity);
        let head = async || match self.store.head(&path).await {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        };
        if self.until_done(Duration::ZERO, head).await? {
            return Ok(());
        }
        let what = format!(
            "{} has no blocks of the volume {}: mount it with the blocks=URL with which it was made",
            self.place, self.name
        );
        Err(Error::new(Errno::INVAL, what))
    }

    /// Writes a new object.
    pub(super) async fn put(&self, session: u64, key: &[u8], value: Bytes) -> Result<Object> {
        let mut object = Object {
            length: u32::try_from(value.len()).unwrap_or(u32::MAX),
            hash: xxh3_64(&value),
            session,
            number: 0,
        };
        loop {
            // Never one that was tried: an attempt without an answer may come late.
            object.number = self.next.fetch_add(1, Ordering::Relaxed);
            let path = self.path(key, &object)?;
            let put = async || {
                self.check_root().await?;
                let options = PutOptions::from(PutMode::Create);
                let put = self.store.put_opts(&path, value.clone().into(), options);
                match put.await {
                    Ok(_) => Ok(true),
                    Err(StoreError::AlreadyExists { .. }) => Ok(false),
                    Err(error) => Err(error),
                }
            };
            if self.until_done(Duration::ZERO, put).await? {
                return Ok(object);
            }
        }
    }

    /// # Errors
    /// One that passes, if the directory is another one now: the file system mounted there is gone,
    /// and a write would make the directory that it hid.
    async fn check_root(&self) -> std::result::Result<(), StoreError> {
        let Some(root) = self.root.clone() else {
            return Ok(());
        };
        let found = tokio::task::spawn_blocking(move || match Root::find(root.path.clone()) {
            Ok(found) if found == root => Ok(()),
            Ok(_) => Err(std::io::Error::other("another directory is there now")),
            Err(error) => Err(error),
        });
        let found = found
            .await
            .map_err(|source| StoreError::JoinError { source })?;
        found.map_err(|source| StoreError::Generic {
            store: "LocalFileSystem",
            source: Box::new(source),
        })
    }

    /// Reads an object.
    pub(super) async fn get(&self, key: &[u8], object: &Object) -> Result<Bytes> {
        let path = self.path(key, object)?;
        let get = async || self.store.get(&path).await?.bytes().await;
        let content = self.until_done(MISSING, get).await?;
        if content.len() != object.length as usize || xxh3_64(&content) != object.hash {
            let place = &self.place;
            return Err(Error::corrupt(format!(
                "the object {path} at {place} has not the content that was written"
            )));
        }
        Ok(content)
    }

    /// Deletes objects that nothing names. One that is gone already is no error.
    pub(super) async fn delete(&self, paths: &[Path]) -> Result<()> {
        let paths: Vec<_> = paths.iter().cloned().map(Ok).collect();
        let mut deleted = self.store.delete_stream(stream::iter(paths).boxed());
        while let Some(deleted) = deleted.next().await {
            match deleted {
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(translated(&error, &self.place)),
            }
        }
        Ok(())
    }

    /// All blocks of the volume in the object store, some at a time.
    pub(super) fn list(&self, at_once: usize) -> BoxStream<'static, Vec<Result<Listed>>> {
        let Some(identity) = self.identity() else {
            return stream::empty().boxed();
        };
        let place = self.place.clone();
        let listed = move |meta: std::result::Result<ObjectMeta, StoreError>| {
            let path = match meta {
                Ok(meta) => meta.location,
                Err(error) => return Some(Err(translated(&error, &place))),
            };
            let (key, session) = Objects::parse(&path)?;
            Some(Ok(Listed { path, key, session }))
        };
        let all = self.store.list(Some(&self.folder(identity)));
        let all = all.filter_map(move |meta| std::future::ready(listed(meta)));
        all.ready_chunks(at_once).boxed()
    }

    /// Repeats an attempt until it succeeds or fails for good; the caller ends it at a deadline.
    async fn until_done<T>(
        &self,
        missing: Duration,
        attempt: impl AsyncFn() -> std::result::Result<T, StoreError>,
    ) -> Result<T> {
        let (began, mut wait) = (Instant::now(), WAITS.0);
        loop {
            let error = match timeout(self.attempt, attempt()).await {
                Ok(Ok(done)) => {
                    self.patience.answered();
                    return Ok(done);
                }
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            if let Some(error) = error {
                let lasts = match &error {
                    StoreError::NotFound { .. } => began.elapsed() >= missing,
                    StoreError::Generic { .. } | StoreError::JoinError { .. } => is_full(&error),
                    _ => true,
                };
                if lasts {
                    return Err(translated(&error, &self.place));
                }
            }
            sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            wait = (2 * wait).min(WAITS.1);
        }
    }

    /// The error of an operation at its deadline.
    pub(super) fn out_of_reach(&self) -> Error {
        let what = format!(
            "the object store at {} has not done what was asked for {}: check that it can be reached and \
             whether it has errors; the volume goes on when it does",
            self.place,
            humantime::format_duration(self.patience.whole())
        );
        Error::new(Errno::TIMEDOUT, what)
    }
}

fn translated(error: &StoreError, place: &str) -> Error {
    match error {
        error if is_full(error) => {
            let what = format!("the object store at {place} is full");
            Error::new(Errno::NOSPC, what)
        }
        StoreError::NotFound { path, .. } => {
            Error::corrupt(format!("the object {path} is missing at {place}"))
        }
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
            let what = format!("the object store at {place} refuses the credentials");
            Error::new(Errno::ACCESS, what)
        }
        error => Error::new(
            Errno::IO,
            format!("the object store at {place}: {}", causes(error)),
        ),
    }
}

/// Whether a disk or a quota is full.
fn is_full(error: &StoreError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        if matches!(
            io,
            Some(std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
        ) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn s3(bucket: &str, url: &RemoteUrl) -> Result<impl ObjectStore + use<>> {
    // Another part of the program may have installed one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let wrong = |e: StoreError| Error::new(Errno::INVAL, format!("{}: {}", url.blocks, causes(&e)));
    let mut builder = AmazonS3Builder::new();
    for (name, value) in Credentials::read(url.credentials.as_deref())?.all() {
        let key = name.starts_with("AWS_").then(|| name.to_ascii_lowercase());
        if let Some(Ok(key)) = key.map(|key| key.parse()) {
            builder = builder.with_config(key, value);
        }
    }
    let options = ClientOptions::new()
        .with_timeout(ATTEMPT)
        // Of the address of the store, which its owner chose.
        .with_allow_http(true);
    let retries = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 1,
        retry_timeout: ATTEMPT,
    };
    let builder = { builder.with_bucket_name(bucket) }
        .with_client_options(options)
        .with_retry(retries);
    builder.build().map_err(wrong)
}

/// The object store in the memory of this process, for tests.
fn memory() -> Arc<dyn ObjectStore> {
    static MEMORY: OnceLock<Arc<InMemory>> = OnceLock::new();
    Arc::clone(MEMORY.get_or_init(Arc::default)) as _
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    #[test]
    fn a_block_has_a_path_that_names_its_key() {
        let url = RemoteUrl::parse("etcd://h:1/v?blocks=memory:///a/b").unwrap();
        let objects = Objects::open(&url, true).unwrap();
        objects.identify(7);
        let object = Object {
            length: 5,
            hash: 6,
            session: 0x1f,
            number: FOLDER + 1,
        };
        let path = objects.path(b"B\0", &object).unwrap();
        assert_eq!(path.as_ref(), "a/b/v-0000000000000007/1f-1/1001-4200");
        assert_eq!(Objects::parse(&path), Some((b"B\0".to_vec(), 0x1f)));
        assert_eq!(Objects::parse(&objects.sign(7)), None);
        assert_eq!(Object::decode(&object.encode()).unwrap(), object);
        assert!(Object::decode(&object.encode()[1..]).is_err());
    }
}
