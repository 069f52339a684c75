//! From a directory to a running database.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use super::core::{Core, FamilyMap, Shared};
use super::directory::{check_files_exist, files_of, prepare_directory};
use super::failure::BackgroundFailure;
use super::families::{create_missing_families, family_state};
use super::locations::locations_of;
use super::purge::remove_leftovers;
use super::replay;
use super::running::RunningCounts;
use super::stall_news::StallNews;
use super::state::{LiveWal, State};
use crate::blob::ValueFetcher;
use crate::cache::{BlockCache, OpenFiles};
use crate::clock::SystemClock;
use crate::compaction::factory::FileFactory;
use crate::error::Result;
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::gc::pace::{FreeingRate, Pace};
use crate::gc::punch::measure_holes;
use crate::options::Options;
use crate::options::persist::write_options_file;
use crate::read::{IteratorList, SnapshotList};
use crate::stats::{Listeners, Statistics};
use crate::sync::atomic::AtomicBool;
use crate::sync::{ArcSwap, Condvar, Mutex};
use crate::version::{RecoveredState, VersionSet, Watch};
use crate::vfs::{FileLock, Overlay, Vfs, read_file, replace_file};
use crate::write::queue::CommitQueue;
use crate::write::wal_set::WalSet;

/// Opens or creates the database in `dir`; see [`Db::open`](crate::Db::open).
pub(super) fn open(dir: &Path, options: &Options) -> Result<Core> {
    let core = Core {
        shared: Arc::new(recover(dir, options, Families::Created)?),
        threads: Mutex::default(),
    };
    let shared = &core.shared;
    shared.purge();
    for family in shared.families.load().values() {
        shared.tell_of_loosened_bound(family);
    }
    let waiting = Arc::downgrade(shared);
    shared.snapshots.watch.on_end(move || {
        if let Some(shared) = waiting.upgrade() {
            shared.snapshot_released();
        }
    });
    let waiting = Arc::downgrade(shared);
    shared.version_watch.on_end(move || {
        if let Some(shared) = waiting.upgrade() {
            shared.version_ended();
        }
    });
    super::background::start(&core)?;
    Ok(core)
}

/// See [`Db::open_read_only`](crate::Db::open_read_only). It is the usual opening, but what that
/// writes stays in memory.
pub(super) fn open_read_only(dir: &Path, options: &Options) -> Result<Core> {
    let mut options = options.clone();
    let device = Arc::clone(&options.db.vfs);
    options.db.vfs = Arc::new(Overlay::new(Arc::clone(&device)));
    options.db.create_if_missing = false;
    options.db.error_if_exists = false;
    let mut shared = recover(dir, &options, Families::LeftOut)?;
    shared.device = device;
    shared.failure.read_only = true;
    Ok(Core {
        shared: Arc::new(shared),
        threads: Mutex::default(),
    })
}

/// What becomes of families that the options name and the database does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Families {
    Created,
    LeftOut,
}

/// The database as its files say it is, with nobody working on it yet.
fn recover(dir: &Path, options: &Options, missing: Families) -> Result<Shared> {
    options.validate()?;
    let vfs = Arc::clone(&options.db.vfs);
    let lock = prepare_directory(&*vfs, dir, options)?;
    let statistics = Arc::new(Statistics::default());
    let exists = vfs.exists(&FileKind::Current.path(dir))?;
    let mut versions = if exists {
        RecoveredState::read(&*vfs, dir, options)?.into_set(
            Arc::clone(&vfs),
            dir,
            options,
            Arc::clone(&statistics),
        )?
    } else {
        VersionSet::create(Arc::clone(&vfs), dir, options, Arc::clone(&statistics))
    };
    let counters = Arc::clone(versions.counters());
    // No name in the directory is ever written again, whoever left it.
    counters.mark_names_used(&files_of(&*vfs, dir)?);
    check_files_exist(&*vfs, dir, &versions)?;
    let clock = Arc::clone(&options.db.clock);
    let identity = establish_identity(&*vfs, &*clock, dir, &mut versions)?;
    let session_id = session_id(&*clock);

    let factory = FileFactory {
        vfs: Arc::clone(&vfs),
        clock,
        dir: dir.to_owned(),
        counters: Arc::clone(&counters),
        direct_io: options.db.use_direct_io_for_flush_and_compaction,
        db_id: identity,
        session_id,
    };
    let block_cache = Arc::new(BlockCache::new(options.db.block_cache_size as usize));
    let open_files = Arc::new(OpenFiles::new(
        Arc::clone(&vfs),
        dir.to_owned(),
        options.db.max_open_files,
        block_cache,
    ));
    replay::replay_wals(&mut versions, &factory, &open_files, options)?;
    // Not before: nothing in those WAL files is for families that are only now created.
    if missing == Families::Created {
        create_missing_families(&mut versions, options);
    }
    let wal_number = counters.new_file_number();
    versions.advance_logs_in_memory(wal_number);
    // ORDER: every recovered table is durable; this makes them, and that no older WAL is needed,
    // true in one step: the switch of CURRENT. A crash before it recovers the same state again.
    versions.start_manifest()?;
    let number = counters.new_file_number();
    write_options_file(&*vfs, dir, number, options, versions.family_names())?;
    remove_leftovers(&*vfs, dir, &versions, wal_number)?;

    assemble(
        lock, options, factory, open_files, versions, statistics, wal_number,
    )
}

/// The database's identity, from the MANIFEST, from IDENTITY, or new; both have it afterwards.
fn establish_identity(
    vfs: &dyn Vfs,
    clock: &dyn SystemClock,
    dir: &Path,
    versions: &mut VersionSet,
) -> Result<String> {
    let path = FileKind::Identity.path(dir);
    let stored = match read_file(vfs, &path) {
        Ok(bytes) => String::from_utf8(bytes.to_vec())
            .unwrap_or_default()
            .trim()
            .to_owned(),
        Err(e) if e.is_not_found() => String::new(),
        Err(e) => return Err(e),
    };
    let mut identity = versions.db_id().to_owned();
    if identity.is_empty() {
        identity.clone_from(&stored);
    }
    if identity.is_empty() {
        identity = random_uuid(clock).to_string();
    }
    if stored.is_empty() {
        let temp = FileKind::Temp(versions.counters().new_file_number()).path(dir);
        replace_file(vfs, &temp, &path, identity.as_bytes())?;
    }
    versions.set_db_id(identity.clone());
    Ok(identity)
}

/// Twenty characters, as RocksDB's session ids have; tables are told apart by them.
pub(crate) fn session_id(clock: &dyn SystemClock) -> String {
    let text = random_uuid(clock).simple().to_string().to_uppercase();
    text.chars().take(20).collect()
}

pub(crate) fn random_uuid(clock: &dyn SystemClock) -> uuid::Uuid {
    uuid::Builder::from_random_bytes(clock.unique_id().to_be_bytes()).into_uuid()
}

fn assemble(
    lock: Box<dyn FileLock>,
    options: &Options,
    factory: FileFactory,
    open_files: Arc<OpenFiles>,
    versions: VersionSet,
    statistics: Arc<Statistics>,
    wal_number: FileNumber,
) -> Result<Shared> {
    let vfs = Arc::clone(&options.db.vfs);
    let dir = factory.dir.clone();
    let locations = Arc::new(ArcSwap::from_pointee(locations_of(&versions)));
    let wal = WalSet::new(Arc::clone(&vfs), dir.clone(), Arc::clone(&statistics));
    let counters = Arc::clone(versions.counters());
    wal.start(wal_number, counters.last_sequence().plus(1))?;

    let mut families = FamilyMap::new();
    let mut states = BTreeMap::new();
    for (&id, recovered) in versions.families() {
        let family_options = Arc::new(options.family(&recovered.name).clone());
        if family_options.blob_garbage_collection_punch_holes {
            for (file, _) in recovered.current.physical_blob_files().into_values() {
                measure_holes(&*vfs, &dir, &file)?;
            }
        }
        let state = family_state(id, recovered, family_options, wal_number);
        families.insert(id, Arc::clone(&state.family));
        states.insert(id, state);
    }
    let fetcher = ValueFetcher::new(
        Arc::clone(&open_files) as Arc<_>,
        Arc::clone(&locations),
        Arc::clone(&statistics),
    );
    Ok(Shared {
        dir,
        options: options.db.clone(),
        device: Arc::clone(&vfs),
        vfs,
        statistics,
        listeners: Listeners(options.db.listeners.clone()),
        counters,
        open_files,
        fetcher,
        locations,
        obsolete: Arc::clone(versions.obsolete()),
        pace: Pace::new(options.db.blob_garbage_collection_rate),
        directory: Mutex::new(Some(lock)),
        factory,
        snapshots: Arc::new(SnapshotList::default()),
        iterators: Arc::new(IteratorList::default()),
        version_watch: Arc::new(Watch::default()),
        families: ArcSwap::from_pointee(families),
        commits: CommitQueue::default(),
        wal,
        versions: Mutex::new(versions),
        state: Mutex::new(State {
            families: states,
            wals: VecDeque::from([LiveWal {
                number: wal_number,
                size: 0,
            }]),
            running: RunningCounts::default(),
            collection_pauses: 0,
            manual_collections: 0,
            flush_barrier: None,
            settling: None,
            version_ended: false,
            freeing: FreeingRate::default(),
            turn: crate::ColumnFamilyId::DEFAULT,
        }),
        work: Condvar::new(),
        progress: Condvar::new(),
        stall_news: StallNews::default(),
        tell_of_write: AtomicBool::new(false),
        kept_for_snapshots: AtomicBool::new(false),
        failure: BackgroundFailure::default(),
        stopping: AtomicBool::new(false),
        closing: AtomicBool::new(false),
        checkpoints: Mutex::new(()),
    })
}
