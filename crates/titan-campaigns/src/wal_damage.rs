//! Damages every byte of a WAL file whose process died, and opens the database in each recovery
//! mode.
//!
//! Synced writes are never lost silently: their damage is an error. Damage of bytes that had not
//! been synced ends the log, and the bytes after it are kept. The campaign knows where each write
//! group is in the file and which of them were synced, and computes from that the result that an
//! opening must have.

use std::sync::Arc;

use parking_lot::Mutex;
use titan::vfs::Vfs;
use titan::{
    Db, DbOptions, ErrorKind, EventListener, Options, ReadOptions, WalDamageEvent, WalRecoveryMode,
    WriteBatch, WriteOptions,
};
use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::mix;
use titan_testkit::sim::{Loss, SimVfs};

use crate::pool::{Task, catch, run_all};
use crate::run::Run;

const DIR: &str = "/db";
const BLOCK: usize = 32 << 10;
const HEADER: usize = 7;
/// The unit in which a device loses bytes.
const SECTOR: usize = 512;

const MODES: [WalRecoveryMode; 4] = [
    WalRecoveryMode::PointInTimeRecovery,
    WalRecoveryMode::TolerateCorruptedTailRecords,
    WalRecoveryMode::AbsoluteConsistency,
    WalRecoveryMode::SkipAnyCorruptedRecords,
];

/// The extent of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Damage one byte in this many.
    pub one_in: u64,
    /// Write groups of a log.
    pub groups: usize,
    /// Logs in a round.
    pub logs: u64,
}

impl Scope {
    /// Every byte.
    pub const WHOLE: Scope = Scope {
        one_in: 1,
        groups: 60,
        logs: 6,
    };

    /// A small part, for tests.
    pub const SAMPLE: Scope = Scope {
        one_in: 97,
        groups: 40,
        logs: 3,
    };
}

/// Damages logs. Counts as passed each opening of a damaged database that had the right result.
pub fn wal_damage(run: &Run, scope: Scope) {
    let jobs = run.seeds(1).flat_map(|seed| {
        run.phase(format!("damage, round {seed}"));
        (0..scope.logs).map(move |log| mix(seed, log))
    });
    run_all(run, jobs, move |seed, task| {
        if let Err(failure) = damage_everywhere(seed, scope, task) {
            task.fail(format!("seed {seed}: {failure}"));
        }
    });
}

/// A write group in the log.
struct Group {
    /// Where its bytes are, a sync record before it included.
    bytes: std::ops::Range<usize>,
    /// Where the record with its operations starts.
    operations: usize,
    /// Up to where its sync record says that the log is durable; 0 without one.
    says: usize,
}

/// A database whose process died.
struct Killed {
    image: SimVfs,
    path: String,
    log: Vec<u8>,
    /// Each writes the key of its number.
    groups: Vec<Group>,
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

fn options(vfs: &SimVfs, mode: WalRecoveryMode, listener: Option<Arc<Damage>>) -> Options {
    let listeners = listener.into_iter().map(|l| l as Arc<dyn EventListener>);
    Options {
        db: DbOptions {
            vfs: Arc::new(vfs.clone()),
            wal_recovery_mode: mode,
            listeners: listeners.collect(),
            ..DbOptions::default()
        },
        ..Options::default()
    }
}

/// Notes an opening's report of damage.
#[derive(Default)]
struct Damage(Mutex<Option<WalDamageEvent>>);

impl EventListener for Damage {
    fn wal_damaged(&self, event: &WalDamageEvent) {
        *self.0.lock() = Some(event.clone());
    }
}

/// Where the block of `at` ends, if no record can start at `at`.
fn after_trailer(at: usize) -> usize {
    match BLOCK - at % BLOCK < HEADER {
        true => at.next_multiple_of(BLOCK),
        false => at,
    }
}

/// Where the first record from `start` on ends.
fn end_of_record(log: &[u8], start: usize) -> usize {
    let mut at = start;
    loop {
        at = after_trailer(at);
        let length = u16::from_le_bytes([log[at + 4], log[at + 5]]);
        let kind = log[at + 6];
        at += HEADER + usize::from(length);
        // Whole, or the last fragment.
        if kind == 1 || kind == 4 {
            return at;
        }
    }
}

impl Killed {
    fn of(seed: u64, groups: usize) -> Checked<Killed> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let vfs = SimVfs::new();
        let options = options(&vfs, WalRecoveryMode::default(), None);
        let db = Db::open(DIR, &options).doing("opening")?;
        let names = vfs.list(DIR).doing("list")?;
        let name = names.into_iter().find(|name| name.ends_with(".log"));
        let path = format!("{DIR}/{}", name.ok_or(CheckFailure::wrong("no log"))?);
        let size = || vfs.size(path.as_ref()).doing("size");
        let sizes = [30, 300, 3000, 40_000];
        let largest = *rng.choice(&sizes).unwrap_or(&300);
        let often = rng.u32(2..8);
        let mut written: Vec<Group> = Vec::new();
        // Synced up to here, and whether the next group says so.
        let (mut synced, mut told) = (0, true);
        for n in 0..groups {
            let len = match rng.u32(0..8) {
                0 => rng.usize(0..largest),
                _ => rng.usize(0..60),
            };
            let mut batch = WriteBatch::new();
            let value: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(len).collect();
            batch.put(&*db, key(n), value).doing("put")?;
            let sync = rng.u32(0..often) == 0;
            let start = size()? as usize;
            let options = WriteOptions {
                sync,
                ..WriteOptions::default()
            };
            db.write(batch, &options).doing("write")?;
            let end = size()? as usize;
            written.push(Group {
                bytes: start..end,
                operations: start,
                says: if told { 0 } else { synced },
            });
            told = !sync;
            synced = if sync { end } else { synced };
        }
        let journal = vfs.journal();
        let image = journal.crash_at(journal.len(), &Loss::None);
        let log = image.read_all(&path).doing("read")?;
        for group in &mut written {
            let start = group.bytes.start;
            let batch = match group.says {
                0 => start,
                _ => end_of_record(&log, start),
            };
            group.operations = after_trailer(batch);
        }
        Ok(Killed {
            image,
            path,
            log,
            groups: written,
        })
    }

    fn end(&self) -> usize {
        self.groups.last().map_or(0, |group| group.bytes.end)
    }

    /// Up to where records after `damage` say that the log had been durable.
    fn synced(&self, damage: &std::ops::Range<usize>) -> usize {
        let intact = |group: &&Group| group.bytes.start >= damage.end;
        let says = self.groups.iter().filter(intact).map(|group| group.says);
        says.max().unwrap_or(0)
    }

    /// Opens the database with `damaged` in place of the log, and checks the result. `damage` is
    /// where the bytes differ.
    fn check(
        &self,
        mode: WalRecoveryMode,
        damaged: &[u8],
        damage: &std::ops::Range<usize>,
    ) -> Checked<()> {
        let journal = self.image.journal();
        let vfs = journal.crash_at(journal.len(), &Loss::None);
        vfs.write_all(&self.path, damaged).doing("damage")?;
        let heard = Arc::new(Damage::default());
        let opened = Db::open(DIR, &options(&vfs, mode, Some(Arc::clone(&heard))));
        let event = heard.0.lock().clone();

        // The first group that is hit, and whether only records without operations are.
        let hit = self.groups.iter().position(|g| g.bytes.end > damage.start);
        let hit = hit.unwrap_or(self.groups.len());
        let harmless = match self.groups.get(hit) {
            // Before the first group is the record that names the file before.
            Some(g) => damage.end <= g.operations,
            None => true,
        };
        let is_synced = self.synced(damage) > damage.start;
        let followed = self.groups.iter().any(|g| g.bytes.start >= damage.end);
        let db = match opened {
            Err(e) => {
                ensure!(e.kind() == ErrorKind::Corruption, "{e}");
                ensure!(
                    e.path() == Some(self.path.as_ref()),
                    "{e}: names another file"
                );
                let may_fail = match mode {
                    WalRecoveryMode::PointInTimeRecovery => is_synced,
                    WalRecoveryMode::SkipAnyCorruptedRecords => false,
                    _ => true,
                };
                ensure!(may_fail, "refused: {e}");
                let kept = vfs.read_all(&self.path).doing("read")?;
                ensure!(kept == damaged, "a refused opening changed the log");
                return Ok(());
            }
            Ok(db) => db,
        };
        let mut found = Vec::new();
        let mut rows = db.iter(&ReadOptions::default()).doing("iterate")?;
        rows.seek_to_first().doing("seek")?;
        while rows.valid() {
            found.push(rows.key().to_vec());
            rows.next().doing("next")?;
        }
        drop(rows);
        let all = found.len() == self.groups.len();
        let is_prefix = |n: usize| found.iter().cloned().eq((0..n).map(key));
        match mode {
            WalRecoveryMode::SkipAnyCorruptedRecords => {
                let before = (0..hit).all(|n| found.contains(&key(n)));
                ensure!(before, "operations before the damage are missing");
                ensure!(found.iter().all(|k| k.starts_with(b"key")), "unknown keys");
            }
            WalRecoveryMode::AbsoluteConsistency => ensure!(all, "{} of all", found.len()),
            WalRecoveryMode::TolerateCorruptedTailRecords => {
                ensure!(
                    all || (!followed && is_prefix(hit)),
                    "{} of all",
                    found.len()
                );
            }
            _ => {
                ensure!(
                    all && is_prefix(self.groups.len()) || is_prefix(hit),
                    "found {} where {hit} were before the damage",
                    found.len()
                );
                ensure!(all || !is_synced, "synced writes are lost, {hit} are left");
                ensure!(
                    harmless || !all || hit == self.groups.len(),
                    "damage unnoticed"
                );
            }
        }
        let kept = format!("{DIR}/lost/{}", &self.path[DIR.len() + 1..]);
        let must_be_kept = match mode {
            WalRecoveryMode::PointInTimeRecovery => !all && followed,
            WalRecoveryMode::SkipAnyCorruptedRecords => !all && followed,
            _ => false,
        };
        if must_be_kept {
            let event = event.ok_or_else(|| CheckFailure::wrong("nothing was said"))?;
            ensure!(event.records_left > 0 || event.skipped > 0, "{event}");
            let kept = vfs.read_all(&kept).doing("read the kept file")?;
            ensure!(kept == damaged, "the kept file differs");
        }
        // The database goes on.
        db.put(b"on", b"and on").doing("put")?;
        db.close().doing("close")?;
        drop(db);
        let db = Db::open(DIR, &options(&vfs, WalRecoveryMode::default(), None));
        let db = db.doing("open again")?;
        let on = db.get(b"on").doing("get")?;
        ensure!(
            on.as_deref() == Some(&b"and on"[..]),
            "a later write is lost"
        );
        Ok(())
    }
}

fn damage_everywhere(seed: u64, scope: Scope, task: &Task) -> Checked<()> {
    let killed = Killed::of(seed, scope.groups)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    for at in 0..killed.end() {
        if !task.goes_on() {
            return Ok(());
        }
        if rng.u64(0..scope.one_in) != 0 {
            continue;
        }
        let bit = rng.u32(0..8);
        let mut flipped = killed.log.clone();
        flipped[at] ^= 1 << bit;
        let mut zeroed = killed.log.clone();
        let sector = at / SECTOR * SECTOR;
        let sector = sector..(sector + SECTOR).min(killed.end());
        zeroed[sector.clone()].fill(0);
        let first = |range: &std::ops::Range<usize>| {
            let differs = range.clone().find(|at| killed.log[*at] != 0);
            differs.unwrap_or(range.end)..range.end
        };
        let cases = [
            ("flip", flipped, at..at + 1),
            ("zeros", zeroed, first(&sector)),
        ];
        for (what, damaged, damage) in cases {
            for mode in MODES {
                task.step(move || format!("seed {seed}, {what} at {at}, {mode:?}"));
                let checked = catch(|| killed.check(mode, &damaged, &damage));
                if let Err(failure) = checked {
                    let text = format!(
                        "{what} at {at} (bit {bit}) of {}, {mode:?}: {failure}",
                        killed.end()
                    );
                    return Err(CheckFailure::wrong(text));
                }
                task.pass(1);
            }
        }
    }
    Ok(())
}
