//! From a directory to a running database.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};

use super::core::{Core, Shared};
use super::failure::BackgroundFailure;
use super::family::Family;
use super::purge::remove_leftovers;
use super::replay;
use super::state::{FamilyState, LiveWal, State};
use crate::blob::{BlobFile, BlobLocation, LocationTable, ValueFetcher};
use crate::cache::{BlockCache, OpenFiles};
use crate::compaction::output::FileFactory;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::format::internal_key::InternalKeyComparator;
use crate::memtable::Memtable;
use crate::options::Options;
use crate::options::file::{DB_OPTIONS, OptionsFile};
use crate::options::persist::write_options_file;
use crate::read::{SnapshotList, SuperVersion};
use crate::stats::{Listeners, StallEvent, Statistics};
use crate::version::{self, RecoveredState, Version, VersionSet};
use crate::vfs::{FileLock, Vfs, read_file, replace_file};
use crate::write::queue::CommitQueue;
use crate::write::wal_set::WalSet;

/// Opens or creates the database in `dir`; see [`Db::open`](crate::Db::open).
pub(super) fn open(dir: &Path, options: &Options) -> Result<Core> {
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
    for number in files_of(&*vfs, dir)?.iter().filter_map(|f| f.number()) {
        counters.mark_file_number_used(FileNumber(number));
    }
    check_files_exist(&*vfs, dir, &versions)?;
    let identity = establish_identity(&*vfs, dir, &mut versions)?;

    let factory = FileFactory {
        vfs: Arc::clone(&vfs),
        dir: dir.to_owned(),
        counters: Arc::clone(&counters),
        direct_io: options.db.use_direct_io_for_flush_and_compaction,
        db_id: identity,
        session_id: session_id(),
    };
    replay::replay_wals(&mut versions, &factory, options)?;
    // Not before: nothing in those WAL files is for families that are only now created.
    create_missing_families(&mut versions, options);
    let wal_number = counters.new_file_number();
    versions.advance_logs_in_memory(wal_number);
    // ORDER: every recovered table is durable; this makes them, and that no older WAL is needed,
    // true in one step: the switch of CURRENT. A crash before it recovers the same state again.
    versions.start_manifest()?;
    write_options_file(&*vfs, dir, counters.new_file_number(), options, &versions)?;
    remove_leftovers(&*vfs, dir, &versions, wal_number)?;

    let shared = Arc::new(assemble(
        dir, options, factory, versions, statistics, wal_number,
    )?);
    shared.purge();
    let threads = super::background::start(&shared)?;
    Ok(Core {
        shared,
        threads: Mutex::new(threads),
        lock: Mutex::new(Some(lock)),
    })
}

/// Makes sure there is a directory to work in, locks it, and refuses what must be refused.
fn prepare_directory(vfs: &dyn Vfs, dir: &Path, options: &Options) -> Result<Box<dyn FileLock>> {
    let not_found = || Error::new(ErrorKind::NotFound, "no database exists here").in_file(dir);
    let create = options.db.create_if_missing;
    let current = FileKind::Current.path(dir);
    if !vfs.exists(dir)? && !create {
        return Err(not_found());
    }
    if !vfs.exists(&current)? && create {
        create_dir_durably(vfs, dir)?;
    }
    // Not even a lock file is left in a directory that is somebody else's.
    if !vfs.exists(&current)? {
        refuse_headless(vfs, dir)?;
        if !create {
            return Err(not_found());
        }
    }
    refuse_other_layouts(vfs, dir)?;
    let lock = vfs.lock(&FileKind::Lock.path(dir))?;
    if vfs.exists(&current)? && options.db.error_if_exists {
        return Err(Error::new(ErrorKind::AlreadyExists, "a database exists here").in_file(dir));
    }
    Ok(lock)
}

/// Creates `dir` and its missing parents so that they survive the machine.
fn create_dir_durably(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    // The missing ones, and the first that is there: that may come from a process that died
    // before it made the name durable.
    let mut chain = Vec::new();
    for path in dir.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        chain.push(path);
        if vfs.exists(path)? {
            break;
        }
    }
    for path in chain.into_iter().rev() {
        vfs.create_dir_all(path)?;
        // ORDER: a directory's name before what is in it. Where its parent is not ours to open,
        // someone else made it.
        match path.parent().map(|parent| vfs.sync_dir(parent)) {
            Some(Err(e)) if e.io_kind() != Some(std::io::ErrorKind::PermissionDenied) => {
                return Err(e);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Databases that keep part of their data elsewhere would open with that part missing.
fn refuse_other_layouts(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    for (name, whose) in [
        ("titandb", "the TiKV project's Titan"),
        ("blob_dir", "stacked BlobDB"),
    ] {
        if vfs.exists(&dir.join(name))? {
            return Err(
                Error::unsupported(format!("a database with blob files of {whose}"))
                    .in_file(&dir.join(name)),
            );
        }
    }
    let is_wal = |kind: &FileKind| matches!(kind, FileKind::Wal(_));
    let files = files_of(vfs, dir)?;
    let newest = files.iter().filter_map(|f| match f {
        FileKind::Options(number) => Some(*number),
        _ => None,
    });
    // A copy may name the directory it was copied from; WAL files that came along settle it.
    let Some(newest) = newest.max().filter(|_| !files.iter().any(is_wal)) else {
        return Ok(());
    };
    let path = FileKind::Options(newest).path(dir);
    // The file is advice: what cannot be read in it cannot be heeded.
    let Ok(options) = read_file(vfs, &path).and_then(|content| OptionsFile::parse(&content)) else {
        return Ok(());
    };
    let wal_dir = options
        .section(DB_OPTIONS, "")
        .and_then(|s| s.get("wal_dir"))
        .unwrap_or("");
    let elsewhere = !wal_dir.is_empty()
        && Path::new(wal_dir) != dir
        && vfs.read_dir(Path::new(wal_dir)).is_ok_and(|names| {
            names
                .iter()
                .filter_map(|name| FileKind::parse(name))
                .any(|kind| is_wal(&kind))
        });
    if elsewhere {
        let message = format!("a database with WAL files in another directory, {wal_dir}");
        return Err(Error::unsupported(message).in_file(&path));
    }
    Ok(())
}

/// Files of a database without CURRENT are a damaged database, not an empty directory. A MANIFEST
/// alone is what a crash during creation leaves.
fn refuse_headless(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let holds_data = files_of(vfs, dir)?
        .into_iter()
        .any(|f| matches!(f, FileKind::Table(_) | FileKind::Blob(_) | FileKind::Wal(_)));
    if holds_data {
        return Err(
            Error::corruption("CURRENT is missing, but files of a database are here").in_file(dir),
        );
    }
    Ok(())
}

pub(super) fn files_of(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<FileKind>> {
    Ok(vfs
        .read_dir(dir)?
        .iter()
        .filter_map(|name| FileKind::parse(name))
        .collect())
}

/// Every live file must be there and have the recorded size; what is inside is checked when read.
fn check_files_exist(vfs: &dyn Vfs, dir: &Path, versions: &VersionSet) -> Result<()> {
    let size_of = |file: FileKind| {
        let path = file.path(dir);
        vfs.size(&path).map_err(|e| {
            if e.is_not_found() {
                Error::corruption("a file the database needs is missing")
                    .in_file(&path)
                    .with_source(e)
            } else {
                e
            }
        })
    };
    for family in versions.families().values() {
        for (_, table) in family.current.tables() {
            let file = FileKind::Table(table.number());
            let size = size_of(file)?;
            if size != table.size() {
                return Err(Error::corruption(format!(
                    "the table has {size} bytes where the MANIFEST says {}",
                    table.size()
                ))
                .in_file(&file.path(dir)));
            }
        }
        for blob in family.current.blob_files.values() {
            let file = FileKind::Blob(blob.shared.number);
            let (size, content) = (size_of(file)?, blob.shared.total_bytes);
            if size < content {
                return Err(Error::corruption(format!(
                    "the blob file has {size} bytes where the MANIFEST says at least {content}"
                ))
                .in_file(&file.path(dir)));
            }
        }
    }
    Ok(())
}

/// The database's identity, from the MANIFEST, from IDENTITY, or new; both have it afterwards.
fn establish_identity(vfs: &dyn Vfs, dir: &Path, versions: &mut VersionSet) -> Result<String> {
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
        identity = uuid::Uuid::new_v4().to_string();
    }
    if stored.is_empty() {
        let temp = FileKind::Temp(versions.counters().new_file_number()).path(dir);
        replace_file(vfs, &temp, &path, identity.as_bytes())?;
    }
    versions.set_db_id(identity.clone());
    Ok(identity)
}

fn create_missing_families(versions: &mut VersionSet, options: &Options) {
    let existing: Vec<String> = versions
        .families()
        .values()
        .map(|f| f.name.clone())
        .collect();
    for (name, family_options) in &options.families {
        if !existing.contains(name) {
            let comparator = InternalKeyComparator::new(Arc::clone(&family_options.comparator));
            let id = versions.next_column_family();
            let current = Version::empty(id, comparator.clone(), family_options.num_levels);
            let family = version::Family {
                name: name.clone(),
                comparator,
                log_number: FileNumber(0),
                current: Arc::new(current),
            };
            versions.add_family_in_memory(id, family);
        }
    }
}

/// Twenty characters, as RocksDB's session ids have; tables are told apart by them.
fn session_id() -> String {
    let text = uuid::Uuid::new_v4().simple().to_string().to_uppercase();
    text.chars().take(20).collect()
}

fn assemble(
    dir: &Path,
    options: &Options,
    factory: FileFactory,
    versions: VersionSet,
    statistics: Arc<Statistics>,
    wal_number: FileNumber,
) -> Result<Shared> {
    let vfs = Arc::clone(&options.db.vfs);
    let block_cache = Arc::new(BlockCache::new(options.db.block_cache_size as usize));
    let open_files = Arc::new(OpenFiles::new(
        Arc::clone(&vfs),
        dir.to_owned(),
        options.db.max_open_files,
        block_cache,
    ));
    let locations = Arc::new(ArcSwap::from_pointee(locations_of(&versions)));
    let wal = WalSet::new(Arc::clone(&vfs), dir.to_owned(), Arc::clone(&statistics));
    let counters = Arc::clone(versions.counters());
    wal.start(wal_number, counters.last_sequence().plus(1))?;

    let mut families = HashMap::new();
    let mut states = BTreeMap::new();
    for (&id, recovered) in versions.families() {
        let state = family_state(id, recovered, options, wal_number);
        families.insert(id, Arc::clone(&state.family));
        states.insert(id, state);
    }
    let fetcher = ValueFetcher::new(
        Arc::clone(&open_files) as Arc<_>,
        Arc::clone(&locations),
        Arc::clone(&statistics),
    );
    Ok(Shared {
        dir: dir.to_owned(),
        options: options.db.clone(),
        vfs,
        statistics,
        listeners: Listeners(options.db.listeners.clone()),
        counters,
        open_files,
        fetcher,
        locations,
        obsolete: Arc::clone(versions.obsolete()),
        purging: Mutex::new(()),
        factory,
        snapshots: Arc::new(SnapshotList::default()),
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
            running_flushes: 0,
            running_compactions: 0,
            turn: crate::ColumnFamilyId::DEFAULT,
        }),
        work: Condvar::new(),
        progress: Condvar::new(),
        failure: BackgroundFailure::default(),
        closing: AtomicBool::new(false),
    })
}

/// The state of a family whose memtable is empty.
pub(super) fn family_state(
    id: crate::ColumnFamilyId,
    recovered: &version::Family,
    options: &Options,
    wal_number: FileNumber,
) -> FamilyState {
    let family_options = Arc::new(options.family(&recovered.name).clone());
    let memtable = Memtable::new(
        recovered.comparator.clone(),
        family_options.write_buffer_size,
    );
    let version = Arc::clone(&recovered.current);
    let super_version = SuperVersion {
        memtable: Arc::clone(&memtable),
        immutables: Vec::new(),
        version: Arc::clone(&version),
    };
    let family = Arc::new(Family {
        id,
        name: recovered.name.clone(),
        options: family_options,
        comparator: recovered.comparator.clone(),
        super_version: ArcSwap::from_pointee(super_version),
        dropped: AtomicBool::new(false),
    });
    FamilyState {
        family,
        memtable,
        memtable_log: wal_number,
        unlogged: false,
        immutables: VecDeque::new(),
        version,
        flushing: false,
        running_compactions: 0,
        manual_compaction: false,
        stall: StallEvent::Normal,
    }
}

/// Every live blob file, where it was written.
fn locations_of(versions: &VersionSet) -> LocationTable {
    let blob_files = versions
        .families()
        .values()
        .flat_map(|f| f.current.blob_files.values());
    LocationTable::new(blob_files.map(|meta| {
        let file = BlobFile {
            number: meta.shared.number,
            count: meta.shared.total_count,
            total_bytes: meta.shared.total_bytes,
        };
        (meta.shared.number, BlobLocation::InPlace(Arc::new(file)))
    }))
}
