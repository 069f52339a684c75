//! The embedded store: a Titan database.
//!
//! Metadata are in the family `default`, inline and compressed. Blocks are in the family `data`, in
//! blob files. A transaction is an optimistic one of the engine; commits of several threads share a
//! write group. After a failure of the disk the store goes on by itself
//! ([`resume`](super::resume)).

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use titan::{
    CollectGarbageOptions, ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompressionType,
    Db, DbOptions, ErrorKind, Options, ReadOptions, Secondary, Snapshot, TransactionOptions,
    WalDamageEvent,
};

use super::log_damage::LogDamage;
use super::resume::Resumption;
use super::{
    Commit, Damage, Direction, Kv, LogSize, Pair, Readable, Reader, Scan, Space, Transaction,
};
use crate::error::{Error, Result};

/// The family of [`Space::Data`].
const DATA: &str = "data";

/// The part of a device for a write buffer and a table, at most, as a divisor. On a small device
/// the log, the store's work beside it and a compaction must fit in the room that a volume keeps
/// free.
const BUFFER_PART: u64 = 128;

/// The sizes of a write buffer, in bytes.
const BUFFERS: RangeInclusive<u64> = 1 << 20..=64 << 20;

/// The write buffers in the log at which the store moves the log's oldest part, unless the options
/// say otherwise.
const LOG_BUFFERS: u64 = 2;

/// The write buffers of a blob file, and of the first level of tables.
const FILE_BUFFERS: u64 = 4;

/// Collections when space is needed now, one after the other: the share of garbage at which a blob
/// file is collected, and whether the engine compacts before, to find unknown garbage. A compaction
/// may need more room than there is, so known garbage is collected first.
const COLLECTIONS: [(f64, bool); 6] = [
    (0.5, false),
    (0.25, false),
    (0.5, true),
    // Values overwritten since are found the next time.
    (0.25, false),
    (0.1, false),
    (0.02, false),
];

/// The options for the database of a volume.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Options of the database: file system, clock, caches, threads.
    pub db: DbOptions,
    /// Bytes from which a block is stored in a blob file.
    pub min_blob_size: u64,
    /// Compression of blocks.
    pub compression: CompressionType,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            db: DbOptions::default(),
            min_blob_size: 4096,
            compression: CompressionType::None,
        }
    }
}

impl EngineOptions {
    /// The options of the database in `dir`, with sizes that suit its device.
    fn options(&self, dir: &Path) -> Options {
        let device = self.db.vfs.device_space(dir).ok().flatten();
        let part = device.map_or(*BUFFERS.end(), |device| device.total / BUFFER_PART);
        let buffer = part.clamp(*BUFFERS.start(), *BUFFERS.end());
        let sized = ColumnFamilyOptions {
            write_buffer_size: buffer,
            target_file_size_base: buffer,
            max_bytes_for_level_base: buffer * FILE_BUFFERS,
            blob_file_size: buffer * FILE_BUFFERS,
            ..ColumnFamilyOptions::default()
        };
        let meta = ColumnFamilyOptions {
            enable_blob_files: false,
            compression: CompressionType::Lz4,
            ..sized.clone()
        };
        let data = ColumnFamilyOptions {
            min_blob_size: self.min_blob_size,
            blob_compression_type: self.compression,
            ..sized
        };
        let mut db = self.db.clone();
        if db.max_total_wal_size == 0 {
            db.max_total_wal_size = buffer * LOG_BUFFERS;
        }
        Options {
            db,
            default: meta,
            families: [(DATA.to_owned(), data)].into(),
        }
    }
}

/// A Titan database as a store.
#[derive(Clone)]
pub struct EngineKv {
    db: Db,
    data: ColumnFamily,
    resumption: Arc<Resumption>,
    log_damage: Arc<LogDamage>,
}

impl EngineKv {
    /// Opens the database in `dir`, or makes one if [`DbOptions::create_if_missing`] says so.
    ///
    /// # Errors
    /// Those of [`Db::open`]; `EBUSY` if another process has it open.
    pub fn open(dir: &Path, options: &EngineOptions) -> Result<Self> {
        let mut options = options.options(dir);
        let log_damage = LogDamage::listen(&mut options.db);
        let db = Db::open(dir, &options)?;
        let data = match db.column_family(DATA) {
            Some(data) => data,
            None => {
                let data = options.families.get(DATA).cloned().unwrap_or_default();
                db.create_column_family(DATA, data)?
            }
        };
        Ok(EngineKv::new(db, data, &options, log_damage))
    }

    /// Opens the database in `dir` for reading. Its files are not changed, and writes fail.
    ///
    /// # Errors
    /// Those of [`Db::open_read_only`]; `EINVAL` if it is no volume.
    pub fn open_read_only(dir: &Path, options: &EngineOptions) -> Result<Self> {
        let mut options = options.options(dir);
        let log_damage = LogDamage::listen(&mut options.db);
        let db = Db::open_read_only(dir, &options)?;
        EngineKv::of_volume(db, &options, log_damage)
    }

    /// Opens the database in `dir` as it is now for reading, while another process has it open.
    ///
    /// # Errors
    /// Those of [`Secondary::open`]; `EINVAL` if it is no volume.
    ///
    /// Cost: that of [`Secondary::open`]: a descriptor for each file, and memory for the log.
    pub fn open_beside(dir: &Path, options: &EngineOptions) -> Result<Self> {
        let mut options = options.options(dir);
        let log_damage = LogDamage::listen(&mut options.db);
        let db = Secondary::open(dir, &options)?.db();
        EngineKv::of_volume(db, &options, log_damage)
    }

    fn of_volume(db: Db, options: &Options, log_damage: Arc<LogDamage>) -> Result<Self> {
        let Some(data) = db.column_family(DATA) else {
            let what = "this Titan database is no volume of TiFS: it has no family `data`";
            return Err(Error::new(rustix::io::Errno::INVAL, what));
        };
        Ok(EngineKv::new(db, data, options, log_damage))
    }

    fn new(db: Db, data: ColumnFamily, options: &Options, log_damage: Arc<LogDamage>) -> Self {
        let clock = Arc::clone(&options.db.clock);
        EngineKv {
            resumption: Arc::new(Resumption::new(db.clone(), clock)),
            db,
            data,
            log_damage,
        }
    }

    /// Damage in the log that this opening found and that was no error: no data is lost that is
    /// known to have been synced.
    pub fn log_damage(&self) -> Option<WalDamageEvent> {
        self.log_damage.get()
    }

    /// The database, for statistics and reports.
    pub fn db(&self) -> &Db {
        &self.db
    }

    fn family(&self, space: Space) -> &ColumnFamily {
        match space {
            Space::Meta => &self.db,
            Space::Data => &self.data,
        }
    }
}

fn bounds(scan: &Scan, snapshot: Option<Snapshot>) -> ReadOptions {
    ReadOptions {
        snapshot,
        lower_bound: Some(scan.begin.clone()),
        upper_bound: Some(scan.end.clone()),
        ..ReadOptions::default()
    }
}

/// The pairs of a scan, from an iterator of the database or of a transaction: two types with the
/// same methods.
macro_rules! pairs {
    ($cursor:ident, $scan:ident) => {{
        match $scan.direction {
            Direction::Forward => $cursor.seek_to_first()?,
            Direction::Backward => $cursor.seek_to_last()?,
        }
        let mut pairs = Vec::new();
        while $cursor.valid() && pairs.len() < $scan.limit {
            let key = Bytes::copy_from_slice($cursor.key());
            let value = if $scan.keys_only {
                Bytes::new()
            } else {
                $cursor.value()?
            };
            pairs.push((key, value));
            match $scan.direction {
                Direction::Forward => $cursor.next()?,
                Direction::Backward => $cursor.prev()?,
            }
        }
        Ok(pairs)
    }};
}

/// Reads forward until the limit or an error; pairs from before the error are in `pairs`.
fn read_forward(
    family: &ColumnFamily,
    options: &ReadOptions,
    scan: &Scan,
    pairs: &mut Vec<Pair>,
) -> titan::Result<()> {
    let mut cursor = family.iter(options)?;
    cursor.seek_to_first()?;
    while cursor.valid() && pairs.len() < scan.limit {
        let value = match scan.keys_only {
            true => Bytes::new(),
            false => cursor.value()?,
        };
        pairs.push((Bytes::copy_from_slice(cursor.key()), value));
        cursor.next()?;
    }
    Ok(())
}

impl Kv for EngineKv {
    fn begin(&self) -> Result<Box<dyn Transaction + '_>> {
        self.resumption.try_now_and_then();
        let transaction = self.db.begin(&TransactionOptions::default())?;
        Ok(Box::new(EngineTransaction {
            store: self,
            transaction,
        }))
    }

    fn snapshot(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(EngineSnapshot {
            store: self,
            snapshot: self.db.snapshot(),
        }))
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.family(space).get(key)?)
    }

    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        if let [key] = keys {
            return Ok(vec![self.get(space, key)?]);
        }
        let values = self.family(space).multi_get(keys);
        values.into_iter().map(|value| Ok(value?)).collect()
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        self.snapshot()?.scan(scan)
    }

    fn sync(&self) -> Result<()> {
        if mutant!(sync_left_out) {
            return Ok(());
        }
        self.resumption.try_now_and_then();
        Ok(self.db.sync_wal()?)
    }

    fn log_size(&self) -> Result<LogSize> {
        let metrics = self.db.metrics();
        let families = metrics.families.iter();
        Ok(LogSize {
            files: metrics.wal_bytes,
            unmoved: families.map(|family| family.memtable_bytes).sum(),
        })
    }

    fn move_log(&self) -> Result<()> {
        self.resumption.try_now_and_then();
        self.db.flush_all()?;
        // Deletes the log, and waits for others that are freeing space.
        Ok(self.db.wait_idle()?)
    }

    fn free_garbage(&self, step: usize) -> Result<bool> {
        self.resumption.try_now_and_then();
        let freed = if let Some(&(threshold, compact)) = COLLECTIONS.get(step) {
            let options = CollectGarbageOptions {
                threshold,
                compact,
                ..CollectGarbageOptions::default()
            };
            self.data.collect_garbage(None, None, &options).map(drop)
        } else if step == COLLECTIONS.len() {
            let options = CompactRangeOptions::default();
            self.db.compact_range(None, None, &options)
        } else {
            return Ok(false);
        };
        match freed.and_then(|()| self.db.wait_idle()) {
            // Another step may fit.
            Err(e) if e.kind() == ErrorKind::NoSpace => {}
            freed => freed?,
        }
        Ok(true)
    }

    fn report(&self) -> Result<serde_json::Value> {
        let space = self.db.space_report()?;
        Ok(serde_json::json!({ "disk": space.disk, "total": space.total }))
    }

    fn close(&self) -> Result<()> {
        self.resumption.try_now();
        // Frees the log, which the next opening would have to read. If there is no room for that,
        // it stays.
        let _: titan::Result<()> = self.db.flush_all();
        Ok(self.db.close()?)
    }
}

/// The database as of one moment.
struct EngineSnapshot<'a> {
    store: &'a EngineKv,
    snapshot: Snapshot,
}

impl EngineSnapshot<'_> {
    fn options(&self) -> ReadOptions {
        ReadOptions {
            snapshot: Some(self.snapshot.clone()),
            ..ReadOptions::default()
        }
    }
}

impl Reader for EngineSnapshot<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.store.family(space).get_with(key, &self.options())?)
    }

    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        let values = self
            .store
            .family(space)
            .multi_get_with(keys, &self.options());
        values.into_iter().map(|value| Ok(value?)).collect()
    }

    fn value_lengths(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<usize>>> {
        lengths(self.store.family(space), keys, &self.options())
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        let family = self.store.family(scan.space);
        let mut cursor = family.iter(&bounds(scan, Some(self.snapshot.clone())))?;
        pairs!(cursor, scan)
    }

    fn scan_readable(&self, scan: &Scan) -> Result<Readable> {
        let family = self.store.family(scan.space);
        let options = bounds(scan, Some(self.snapshot.clone()));
        let mut pairs = Vec::new();
        let damage = match read_forward(family, &options, scan, &mut pairs) {
            Ok(()) => None,
            Err(e) if e.is_corruption() => Some(Damage {
                last: family.last_unreadable_key(&e),
                error: e.into(),
            }),
            Err(e) => return Err(e.into()),
        };
        Ok(Readable { pairs, damage })
    }
}

struct EngineTransaction<'a> {
    store: &'a EngineKv,
    transaction: titan::Transaction,
}

impl Reader for EngineTransaction<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.transaction.get(self.store.family(space), key)?)
    }

    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        let family = self.store.family(space);
        let values = self.transaction.multi_get(family, keys);
        values.into_iter().map(|value| Ok(value?)).collect()
    }

    fn value_lengths(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<usize>>> {
        let options = ReadOptions {
            snapshot: self.transaction.snapshot(),
            ..ReadOptions::default()
        };
        lengths(self.store.family(space), keys, &options)
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        let family = self.store.family(scan.space);
        let mut cursor = self.transaction.iter(family, &bounds(scan, None))?;
        pairs!(cursor, scan)
    }
}

fn lengths(
    family: &ColumnFamily,
    keys: &[Vec<u8>],
    options: &ReadOptions,
) -> Result<Vec<Option<usize>>> {
    let length = |key: &Vec<u8>| -> Result<Option<usize>> {
        let Some(value) = family.get_lazy_with(key, options)? else {
            return Ok(None);
        };
        // The stored length of a compressed value is not its length.
        Ok(Some(match value.len() {
            Some(length) => usize::try_from(length).unwrap_or(usize::MAX),
            None => value.fetch()?.len(),
        }))
    };
    keys.iter().map(length).collect()
}

impl Transaction for EngineTransaction<'_> {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        debug_assert!(!value.is_empty(), "values are not empty");
        let family = self.store.family(space);
        Ok(self.transaction.put(family, key, value)?)
    }

    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        Ok(self.transaction.delete(self.store.family(space), key)?)
    }

    fn guard(&mut self, space: Space, key: &[u8]) -> Result<()> {
        Ok(self.transaction.guard(self.store.family(space), key)?)
    }

    fn commit(self: Box<Self>) -> Result<Commit> {
        match self.transaction.commit() {
            Ok(()) => Ok(Commit::Committed),
            Err(e) if e.kind() == ErrorKind::Conflict => Ok(Commit::Conflict),
            Err(e) => Err(e.into()),
        }
    }
}
