//! From a directory to a running database.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::kept_memtables::KeptMemtables;
use super::replay::{self, Replayed};
use super::room_to_open::with_need;
use super::unknown_pointers::refuse_unknown_pointers;
use crate::block_cache::BlockCache;
use crate::clock::{SteadyClock, SystemClock, random_uuid, session_id};
use crate::compaction::building::job_env::JobEnv;
use crate::db::core::admission::Admission;
use crate::db::core::failure::BackgroundFailure;
use crate::db::core::files::Files;
use crate::db::core::idle::Idle;
use crate::db::core::lifecycle::Lifecycle;
use crate::db::core::new_family::{create_missing_families, family_state};
use crate::db::core::opening::Opening;
use crate::db::core::pins::Pins;
use crate::db::core::recent_writes::RecentWrites;
use crate::db::core::room::Room;
use crate::db::core::running_jobs::RunningCounts;
use crate::db::core::shared::{Core, FamilyMap, Shared};
use crate::db::core::signals::Signals;
use crate::db::core::state::{Collections, FamilyState, LiveWal, Stalls, State};
use crate::db::core::write_times::WriteTimes;
use crate::db::on_disk::directory::{
    check_files_exist, files_of, prepare_directory, refuse_unreadable_tables,
};
use crate::db::on_disk::follower::Captured;
use crate::db::on_disk::layout::with_layout;
use crate::db::on_disk::leftovers::remove_leftovers;
use crate::db::on_disk::lost_files::link_to_lost;
use crate::db::on_disk::options_file::write_options_file;
use crate::db::on_disk::wals::Wals;
use crate::env::{Env, Membership, OpenFilesLimits};
use crate::error::Result;
use crate::format::file_name::FileKind;
use crate::format::{ColumnFamilyId, FileNumber, OpeningId};
use crate::gc::punch::measure_holes;
use crate::memtable::Memtable;
use crate::number_map::NumberMap;
use crate::open_files::OpenFiles;
use crate::options::Options;
use crate::options::kept::Resolved;
use crate::stats::{HistogramKind, Listeners, Statistics, notify, span};
use crate::sync::{ArcSwap, Mutex};
use crate::version::{RecoveredState, VersionSet};
use crate::vfs::{
    FileLock, LevelDbNames, Overlay, Reclaiming, Vfs, in_locked, read_file, replace_file,
};
use crate::write::hook::Hook;
use crate::write::pipeline::CommitPipeline;
use crate::write::wal_set::WalSet;

/// Opens or creates the database in `dir`; see [`Db::open`](crate::Db::open).
pub(crate) fn open(dir: &Path, options: &Options) -> Result<Core> {
    let began = options.db.clock.monotonic();
    let core = Core {
        shared: Arc::new(recover(
            dir,
            options,
            std::convert::identity,
            Families::Created,
        )?),
        closing: Mutex::default(),
    };
    let shared = &core.shared;
    shared.purge();
    for family in shared.families.load().values() {
        family.report_loosened_bound(&shared.opening.listeners);
        shared.opening.write_times.record_for(family.revisit);
        shared.heed_dead_ranges_of(family);
    }
    let signals = Arc::clone(&shared.signals);
    let released = move || signals.snapshot_released();
    shared.pins.snapshots.watch.on_end(released);
    let signals = Arc::clone(&shared.signals);
    let ended = move || signals.version_ended();
    shared.pins.version_watch.on_end(ended);
    if mutant!(callback_keeps_the_database) {
        std::mem::forget(Arc::clone(shared));
    }
    crate::db::jobs::background::start(&core)?;
    note_time(&core, began);
    Ok(core)
}

/// See [`Db::open_read_only`](crate::Db::open_read_only). It is the usual opening, but the files
/// that it writes stay in memory.
pub(crate) fn open_read_only(dir: &Path, options: &Options) -> Result<Core> {
    let began = options.db.clock.monotonic();
    let files = Arc::clone(&options.db.vfs);
    let core = idle(recover_in_memory(
        dir,
        options,
        std::convert::identity,
        files,
    )?);
    note_time(&core, began);
    Ok(core)
}

/// Adds the time of an opening to the statistics of the opened database.
fn note_time(core: &Core, began: Duration) {
    if let Some(detailed) = core.shared.opening.statistics.detailed() {
        detailed.since(HistogramKind::Open, began);
    }
}

/// The database of a captured moment.
pub(crate) fn open_captured(dir: &Path, options: &Options, captured: &Captured) -> Result<Core> {
    let mut options = options.clone();
    // Its files are open already, unlike those of others.
    options.db.env = None;
    // The WAL files are the captured ones, wherever they were.
    options.db.wal_dir = Some(dir.to_owned());
    let (limits, files) = (
        OpenFilesLimits::of_open_files,
        Arc::clone(&captured.vfs) as _,
    );
    let mut shared = recover_in_memory(dir, &options, limits, files)?;
    shared.opening.moment = Some(captured.moment(shared.counters.last_sequence()));
    Ok(idle(shared))
}

/// Recovers from `files`, which are or were the directory's; new files stay in memory.
fn recover_in_memory(
    dir: &Path,
    options: &Options,
    limits: fn(OpenFilesLimits) -> OpenFilesLimits,
    files: Arc<dyn Vfs>,
) -> Result<Shared> {
    let mut options = options.clone();
    options.db.vfs = Arc::new(Overlay::new(Arc::clone(&files)));
    options.db.create_if_missing = false;
    options.db.error_if_exists = false;
    let mut shared = recover(dir, &options, limits, Families::LeftOut)?;
    shared.files.device = LevelDbNames::shown(shared.files.in_locked(files), dir)?;
    shared.lifecycle.read_only = true;
    Ok(shared)
}

/// A core that no thread serves.
fn idle(shared: Shared) -> Core {
    Core {
        shared: Arc::new(shared),
        closing: Mutex::default(),
    }
}

/// Treatment of families that the options name and the database does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Families {
    Created,
    LeftOut,
}

/// The database as its files say it is, before any thread uses it.
fn recover(
    dir: &Path,
    options: &Options,
    limits: fn(OpenFilesLimits) -> OpenFilesLimits,
    missing: Families,
) -> Result<Shared> {
    span!("recovery", dir = dir.display());
    options.validate()?;
    let (lock, options, reclaiming) = claim_directory(dir, options, missing)?;
    let statistics = Arc::new(Statistics::default());
    let (mut versions, resolved) = read_state(dir, &options, missing, &statistics)?;
    let options = &resolved.options;
    let vfs = &*options.db.vfs;
    let wals = Wals::find(vfs, dir, versions.logs_since(), false)?;
    let clock = Arc::clone(&options.db.clock);
    let identity = establish_identity(vfs, &*clock, dir, &mut versions);
    let identity = identity.map_err(|e| with_need(e, &versions))?;
    let session_id = session_id(&*clock);

    let env = JobEnv {
        vfs: Arc::clone(&options.db.vfs),
        clock: SteadyClock::new(clock),
        dir: dir.to_owned(),
        counters: Arc::clone(versions.counters()),
        direct_io: options.db.use_direct_io_for_flush_and_compaction,
        db_id: identity,
        session_id,
    };
    let shared_env = options.db.env.clone();
    let in_env = shared_env.unwrap_or_else(|| {
        let limits = limits(OpenFilesLimits::of_database(&options.db));
        Env::of_one(&options.db.of_own_env(), limits)
    });
    let membership = Membership::in_env(&in_env, OpeningId::new(), &statistics);
    let open_files = open_files(&env, &membership, &reclaiming);
    let replayed = replay::replay_wals(&mut versions, &env, &open_files, options, &wals)?;
    // Not before: nothing in those WAL files is for families that are only now created.
    if missing == Families::Created {
        create_missing_families(&mut versions, options);
    }
    let logs = finish_manifest(
        &mut versions,
        dir,
        &resolved,
        missing,
        replayed,
        &statistics,
    )?;
    let recovered = Recovered {
        lock,
        env,
        open_files,
        membership,
        versions,
        statistics,
        logs,
    };
    let mut shared = assemble(recovered, options)?;
    shared.opening.taken = resolved.taken;
    Ok(shared)
}

/// Locks the directory. Returns the options to work on it with, whose file system has its files.
fn claim_directory(
    dir: &Path,
    options: &Options,
    missing: Families,
) -> Result<(Box<dyn FileLock>, Options, Arc<Reclaiming>)> {
    let mut options = with_layout(dir, options, missing == Families::LeftOut)?;
    let lock = prepare_directory(&*options.db.vfs, dir, &options)?;
    // ORDER: before anything else is read or written, so that all of it is in the locked directory,
    // also if another one gets its name.
    let in_locked = in_locked(options.db.vfs, dir, &*lock);
    let reclaiming = Arc::new(Reclaiming::new(in_locked));
    options.db.vfs = Arc::clone(&reclaiming) as _;
    Ok((lock, options, reclaiming))
}

/// Reads the set of files and the options that are kept, and refuses what cannot be opened. Nothing
/// is written.
fn read_state(
    dir: &Path,
    options: &Options,
    missing: Families,
    statistics: &Arc<Statistics>,
) -> Result<(VersionSet, Resolved)> {
    let vfs = &options.db.vfs;
    let exists = vfs.exists(&FileKind::Current.path(dir))?;
    let state = match exists {
        true => Some(RecoveredState::read(&**vfs, dir, options)?),
        false => None,
    };
    let (kept, names) = match &state {
        Some(state) => (state.kept_options(&**vfs, dir)?, state.family_names()),
        None => Default::default(),
    };
    if missing == Families::Created {
        kept.refuse_single_levels(options)?;
    }
    let resolved = kept.resolve(options, &names)?;
    let options = &resolved.options;
    let slow = options.db.slow_operation_micros;
    let detail = statistics.detail();
    detail.set(options.db.stats_level, slow, &options.db.clock)?;
    let (files, counted) = (Arc::clone(vfs), Arc::clone(statistics));
    let versions = match state {
        Some(state) => state.into_set(files, dir, options, counted)?,
        None => VersionSet::create(files, dir, options, counted),
    };
    // No name in the directory is ever written again, also if another process left it.
    let counters = versions.counters();
    counters.mark_names_used(dir, &files_of(&**vfs, dir)?)?;
    check_files_exist(&**vfs, dir, &versions)?;
    // ORDER: before opening writes its first byte.
    refuse_unreadable_tables(&**vfs, dir, &versions, missing == Families::Created)?;
    if missing == Families::Created && !mutant!(unknown_pointers_opened) {
        refuse_unknown_pointers(&**vfs, dir, &versions)?;
    }
    Ok((versions, resolved))
}

/// The files to be opened, of which the file system closes some where the process may have no more.
fn open_files(env: &JobEnv, membership: &Membership, reclaiming: &Reclaiming) -> Arc<OpenFiles> {
    let shared = membership.parts();
    let open_files = Arc::new(OpenFiles::among(
        &shared.files,
        Arc::clone(&env.vfs),
        env.dir.clone(),
        Arc::new(BlockCache::among(&shared.blocks, membership.id())),
    ));
    let kept_open = Arc::downgrade(&open_files);
    reclaiming.reclaim_by(move || {
        let kept_open = kept_open.upgrade();
        kept_open.is_some_and(|files| files.close_unused(1) > 0)
    });
    open_files
}

/// Switches to a MANIFEST with what was recovered, and removes what is not needed any more.
fn finish_manifest(
    versions: &mut VersionSet,
    dir: &Path,
    resolved: &Resolved,
    missing: Families,
    replayed: Replayed,
    statistics: &Arc<Statistics>,
) -> Result<Logs> {
    let Replayed { kept, damage } = replayed;
    let options = &resolved.options;
    let vfs = &*options.db.vfs;
    versions.keep_settings(resolved.db.clone(), |name| {
        let kept = resolved.families.get(name).cloned();
        kept.unwrap_or_else(|| options.family(name).kept_texts())
    });
    let wal_number = versions.counters().new_file_number();
    if kept.is_none() {
        versions.advance_logs_in_memory(wal_number);
    }
    let damage = damage.map(|mut damage| {
        if missing == Families::LeftOut {
            damage.kept.clear();
        }
        damage
    });
    // ORDER: before the switch of CURRENT, after which any opening deletes files that are not
    // needed.
    if let Some(damage) = &damage
        && !mutant!(damaged_wal_deleted)
    {
        let kept = damage.kept.iter().map(|wal| FileKind::Wal(*wal));
        link_to_lost(vfs, dir, &kept.collect::<Vec<_>>())?;
    }
    // ORDER: all recovered tables are durable by now, and so are the WAL files that are kept
    // instead. The switch of CURRENT to the new MANIFEST adds the tables, ends the need for older
    // WAL files, and records the options, in one step. After a crash before it, recovery starts
    // from the same state again.
    let started = versions.start_manifest();
    started.map_err(|e| with_need(e, versions))?;
    write_options_file(versions, dir, &options.db, |name| {
        options.family(name).compaction_filter.clone()
    })
    .map_err(|e| with_need(e, versions))?;
    let listeners = Listeners::new(options.db.listeners.clone(), Arc::clone(statistics));
    if let Some(damage) = &damage {
        notify!(listeners, wal_damaged(damage));
    }
    let oldest_wal = kept.as_ref().map_or(wal_number, |kept| kept.oldest_wal);
    remove_leftovers(vfs, dir, versions, oldest_wal, &mut |e| {
        notify!(listeners, deletion_failed(e));
    })?;
    Ok(Logs { wal_number, kept })
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

/// The WAL files of an opening.
struct Logs {
    /// The first that it writes.
    wal_number: FileNumber,
    /// Earlier ones that are kept, and their contents.
    kept: Option<KeptMemtables>,
}

/// A database whose files are as they are to be when it runs.
struct Recovered {
    lock: Box<dyn FileLock>,
    env: JobEnv,
    open_files: Arc<OpenFiles>,
    membership: Membership,
    versions: VersionSet,
    statistics: Arc<Statistics>,
    logs: Logs,
}

/// Memtables that are kept, by family, each with the first WAL file that has operations of it.
type KeptByFamily = NumberMap<ColumnFamilyId, (Arc<Memtable>, FileNumber)>;

fn assemble(recovered: Recovered, options: &Options) -> Result<Shared> {
    let Recovered {
        lock,
        env,
        open_files,
        membership,
        versions,
        statistics,
        logs,
    } = recovered;
    let wal_number = logs.wal_number;
    let listeners = Listeners::new(options.db.listeners.clone(), Arc::clone(&statistics));
    listeners.hear_of_slow_operations();
    let (pipeline, kept, wals) =
        start_pipeline(&env, options, &versions, logs, &statistics, &listeners)?;
    let (families, states) = families_of(&env, options, &versions, wal_number, &kept)?;
    let state = State {
        families: states,
        wals,
        running: RunningCounts::default(),
        collections: Collections::default(),
        flush_barrier: None,
        idle_cleanup: None,
        stalls: Stalls::default(),
        room: Room::default(),
        recent_writes: RecentWrites::default(),
        idle: Idle::default(),
        warm_up_due: false,
        turn: ColumnFamilyId::DEFAULT,
    };
    invariant!(
        state.current_wal() == wal_number && state.oldest_log_needed(None) <= wal_number,
        "an opening writes to WAL file {wal_number}, and the current one is {}",
        state.current_wal()
    );
    invariant!(
        state.families.keys().eq(families.keys()),
        "an opening has other families for readers than for jobs"
    );
    let admission = Admission::new(&options.db);
    admission.wal_limit.set(&state, &options.db);
    // The next commit switches those that were kept and are full.
    let full = kept
        .iter()
        .filter(|(_, (memtable, _))| memtable.should_flush());
    admission.add_filled(full.map(|(id, _)| *id));
    let signals = Arc::new(Signals::of(&membership));
    let obsolete = Arc::clone(versions.obsolete());
    let lifecycle = Lifecycle::open(&env.dir);
    Ok(Shared {
        files: Files::new(env, open_files, obsolete, &statistics, lock),
        failure: BackgroundFailure::none(Arc::clone(&signals), listeners.clone()),
        opening: Opening {
            id: membership.id(),
            clock: Arc::clone(&options.db.clock),
            env: membership,
            options: ArcSwap::from_pointee(options.db.clone()),
            taken: Vec::new(),
            moment: None,
            statistics,
            write_times: WriteTimes::default(),
            listeners,
        },
        pins: Pins::default(),
        families: ArcSwap::from_pointee(families),
        counters: Arc::clone(versions.counters()),
        pipeline,
        versions: Mutex::new(versions),
        state: Mutex::new(state),
        signals,
        admission,
        lifecycle,
    })
}

/// Starts the first WAL file, after those that are kept. Returns their memtables, and all files.
fn start_pipeline(
    env: &JobEnv,
    options: &Options,
    versions: &VersionSet,
    logs: Logs,
    statistics: &Arc<Statistics>,
    listeners: &Listeners,
) -> Result<(CommitPipeline, KeptByFamily, VecDeque<LiveWal>)> {
    let Logs { wal_number, kept } = logs;
    let wal = WalSet::new(
        Arc::clone(&env.vfs),
        env.dir.clone(),
        options.db.extend_wal_files,
        Arc::clone(statistics),
    );
    let hook = options.db.commit_hook.clone().map(|hook| {
        let listeners = listeners.clone();
        let on_poison = move || notify!(listeners, commit_hook_poisoned());
        Hook::new(hook, Box::new(on_poison))
    });
    let counters = Arc::clone(versions.counters());
    let mut pipeline = CommitPipeline::new(wal, counters, Arc::clone(statistics), hook);
    let (kept, mut wals) = match kept {
        Some(kept) => {
            pipeline.continue_after(kept.predecessor, kept.end);
            let memtables = kept.memtables.into_iter();
            let memtables: KeptByFamily = memtables
                .map(|(id, memtable)| (id, (memtable, kept.oldest_wal)))
                .collect();
            (memtables, VecDeque::from(kept.wals))
        }
        None => Default::default(),
    };
    wals.push_back(LiveWal {
        number: wal_number,
        size: 0,
    });
    let started = pipeline.start_first_wal(wal_number);
    started.map_err(|e| with_need(e, versions))?;
    Ok((pipeline, kept, wals))
}

/// The families, for readers and for jobs.
fn families_of(
    env: &JobEnv,
    options: &Options,
    versions: &VersionSet,
    wal_number: FileNumber,
    kept: &KeptByFamily,
) -> Result<(FamilyMap, NumberMap<ColumnFamilyId, FamilyState>)> {
    let mut families = FamilyMap::new();
    let mut states = NumberMap::new();
    for (&id, recovered) in versions.families() {
        let family_options = Arc::new(options.family(&recovered.name).clone());
        if family_options.blob_garbage_collection_punch_holes {
            for (file, _) in recovered.current.physical_blob_files().into_values() {
                measure_holes(&*env.vfs, &env.dir, &file)?;
            }
        }
        let state = family_state(id, recovered, family_options, wal_number, kept.get(&id));
        families.insert(id, Arc::clone(&state.family));
        states.insert(id, state);
    }
    Ok((families, states))
}
