//! The blocks of files, each an object of its own in an object store.
//!
//! The metadata have for each block the number of its object, its length and its checksum. A new
//! content is a new object, so a read of an older revision finds the older one, and a small write
//! costs one block.

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
use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::time::{Instant, sleep, timeout};
use xxhash_rust::xxh3::xxh3_64;

use super::credentials::Credentials;
use super::directory::Directory;
use super::failures::causes;
use super::refusals::{self, is_full, is_refused, said, translated};
use crate::error::{Error, Result};
use crate::kv::RemoteUrl;
use crate::kv::remote::patience::Patience;

/// The first byte of a value, as of all that a volume stores.
const FORMAT: u8 = 1;
/// The time after which a request is given up.
const ATTEMPT: Duration = Duration::from_secs(10);
/// For how long an object may be missing that was written a moment ago.
const MISSING: Duration = Duration::from_secs(3);
/// The reason of a wait that nothing has ended.
const NO_ANSWER: &str = "no answer";
/// The first and the longest wait between two attempts.
const WAITS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// Objects in one folder.
const FOLDER: u64 = 4096;
/// Requests of the object store at the same time.
pub(super) const AT_ONCE: usize = 16;

/// The value that the metadata have for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) length: u32,
    hash: u64,
    /// The revision at which the session began that wrote it.
    pub(super) session: u64,
    pub(super) number: u64,
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
    pub(super) number: u64,
}

/// The objects of a volume.
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    /// The directory of `store`, if it is one.
    directory: Option<Arc<Directory>>,
    /// The address, for messages.
    place: String,
    /// The folder of all volumes.
    above: Path,
    name: String,
    /// The number that no other volume of any name and cluster has.
    identity: OnceLock<u64>,
    /// The number that the volume gets if it has none. All attempts have the same, since each
    /// leaves a sign.
    pub(super) new_identity: u64,
    next: AtomicU64,
    pub(super) patience: Arc<Patience>,
    /// The reason why the last attempt failed, if it did.
    reason: Mutex<Option<String>>,
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
        let mut directory = None;
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
                let found = Directory::find(rest.into());
                let found = found.map_err(|e| wrong(crate::error::reason(&e)))?;
                directory = Some(Arc::new(found));
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
            attempt: match directory {
                Some(_) => url.timeout,
                None => ATTEMPT,
            },
            directory,
            place: url.blocks.clone(),
            above: above.map_err(|e| wrong(e.to_string()))?,
            name: url.name.clone(),
            identity: OnceLock::new(),
            new_identity: fastrand::u64(..),
            next: AtomicU64::new(0),
            patience: Arc::new(Patience::new(url.timeout)),
            reason: Mutex::new(None),
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

    /// The path of a block's object. It has the key, so that a list shows which key should name it.
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

    /// The block of a path; `None` of one that is no block's.
    fn parse(path: Path) -> Option<Listed> {
        let mut parts: Vec<String> = path.parts().map(|part| part.as_ref().to_owned()).collect();
        let (last, folder) = (parts.pop()?, parts.pop()?);
        let session = u64::from_str_radix(folder.split_once('-')?.0, 16).ok()?;
        let (number, key) = last.split_once('-')?;
        let number = u64::from_str_radix(number, 16).ok()?;
        let byte = |at: usize| u8::from_str_radix(key.get(at..at + 2)?, 16).ok();
        let key: Option<Vec<u8>> = (0..key.len()).step_by(2).map(byte).collect();
        Some(Listed {
            path,
            key: key?,
            session,
            number,
        })
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
        if self.has(&path, MISSING).await? {
            return Ok(());
        }
        let what = format!(
            "{} has no blocks of the volume {}: mount it with the blocks=URL with which it was made",
            self.place, self.name
        );
        Err(Error::of_store(Errno::INVAL, what))
    }

    /// The error of an object that is not there.
    pub(super) fn missing(&self, path: &Path) -> Error {
        refusals::missing(path.as_ref(), &self.place)
    }

    /// Whether there is an object. One that is missing is waited for so long.
    pub(super) async fn has(&self, path: &Path, missing: Duration) -> Result<bool> {
        let head = async || self.store.head(path).await.map(drop);
        match self.until_done(missing, head).await {
            Err(error) if error.is_damage() => Ok(false),
            found => found.map(|()| true),
        }
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
                check(self.directory.clone()).await?;
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

    /// Reads an object.
    pub(super) async fn get(&self, key: &[u8], object: &Object) -> Result<Bytes> {
        let path = self.path(key, object)?;
        let get = async || self.store.get(&path).await?.bytes().await;
        let content = self.until_done(MISSING, get).await?;
        if content.len() != object.length as usize || xxh3_64(&content) != object.hash {
            let place = &self.place;
            return Err(Error::damage(format!(
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
            Objects::parse(path).map(Ok)
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
        // The caller is told that it is missing, not that the time is over.
        let missing = missing.min(self.patience.get() / 2);
        loop {
            let reason = match timeout(self.attempt, attempt()).await {
                Ok(Ok(done)) => {
                    self.answered();
                    return Ok(done);
                }
                Ok(Err(error)) => {
                    let lasts = match &error {
                        StoreError::NotFound { .. } => began.elapsed() >= missing,
                        StoreError::Generic { .. } | StoreError::JoinError { .. } => {
                            is_full(&error) || is_refused(&error)
                        }
                        _ => true,
                    };
                    if lasts {
                        self.answered();
                        return Err(translated(&error, &self.place));
                    }
                    said(&error)
                }
                Err(_) => NO_ANSWER.to_owned(),
            };
            *self.reason.lock() = Some(reason);
            sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            wait = (2 * wait).min(WAITS.1);
        }
    }

    fn answered(&self) {
        self.patience.answered();
        *self.reason.lock() = None;
    }

    /// Asks again and again, until the store answers or somebody else was answered. Each attempt
    /// waits the whole time: a store may answer whose answers take longer than the short waits.
    pub(super) fn probe(&self) -> impl Future<Output = ()> + Send + use<> {
        let (store, directory) = (Arc::clone(&self.store), self.directory.clone());
        let patience = Arc::clone(&self.patience);
        let at_most = self.attempt.min(patience.whole());
        let sign = self.identity().map(|identity| self.sign(identity));
        let path = sign.unwrap_or_else(|| self.above.clone());
        async move {
            while patience.is_silent() {
                let head = async {
                    check(directory.clone()).await?;
                    store.head(&path).await.map(drop)
                };
                match timeout(at_most, head).await {
                    Ok(Err(error)) if !matches!(&error, StoreError::NotFound { .. }) => {
                        if is_refused(&error) {
                            patience.answered();
                        }
                    }
                    Ok(_) => patience.answered(),
                    Err(_) => {}
                }
                sleep(WAITS.1).await;
            }
        }
    }

    /// The error of an operation at its deadline.
    pub(super) fn out_of_reach(&self) -> Error {
        let reason = self.reason.lock().clone();
        let what = format!(
            "the object store at {} has not done what was asked for {} ({}): check that it can be reached \
             and whether it has errors; the volume goes on when it does",
            self.place,
            humantime::format_duration(self.patience.whole()),
            reason.as_deref().unwrap_or(NO_ANSWER)
        );
        Error::new(Errno::TIMEDOUT, what)
    }
}

/// # Errors
/// One that passes, as of [`Directory::check`].
async fn check(directory: Option<Arc<Directory>>) -> std::result::Result<(), StoreError> {
    let Some(directory) = directory else {
        return Ok(());
    };
    let checked = tokio::task::spawn_blocking(move || directory.check());
    let checked = checked
        .await
        .map_err(|source| StoreError::JoinError { source })?;
    checked.map_err(|source| StoreError::Generic {
        store: "LocalFileSystem",
        source: Box::new(source),
    })
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
        let listed = Objects::parse(path).unwrap();
        assert_eq!(listed.key, b"B\0");
        assert_eq!((listed.session, listed.number), (0x1f, FOLDER + 1));
        assert!(Objects::parse(objects.sign(7)).is_none());
        assert_eq!(Object::decode(&object.encode()).unwrap(), object);
        assert!(Object::decode(&object.encode()[1..]).is_err());
    }
}
