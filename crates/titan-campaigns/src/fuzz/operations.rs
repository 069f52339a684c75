//! Operations against the model, then a crash.

use std::collections::BTreeMap;

use titan::tools::check;
use titan::{
    ColumnFamily, CompactRangeOptions, CompressionType, Db, Options, ReadOptions, Snapshot,
    WriteBatch, WriteOptions,
};
use titan_testkit::history::History;
use titan_testkit::model::{DEFAULT, Model, Pairs};
use titan_testkit::ops::{Op, Ops, Value, Write, legal};
use titan_testkit::sim::{Loss, SimVfs};

use super::input::Input;
use super::{DIR, contents, ensure, pairs, small, text};

type Check = Result<(), String>;

/// Operations of one list at most.
const MOST: usize = 40;
const KEYS: u8 = 12;
const LENGTHS: [usize; 8] = [0, 1, 30, 99, 100, 300, 1000, 5000];
const FAMILIES: [&str; 4] = [DEFAULT, DEFAULT, "cf1", "cf2"];

/// Performs the operations that the bytes say on a database and on the model; then stops the
/// machine at one of the file operations, and looks what is left.
///
/// # Panics
/// If a read differs from the model, an operation fails, or the crash leaves anything but a prefix
/// of the history that has all that was acknowledged as durable.
#[expect(clippy::panic, reason = "it is how a property fails")]
pub fn operations(data: &[u8]) {
    let mut input = Input::new(data);
    let plan = Plan::read(&mut input);
    let outcome = Run::new(&plan).and_then(|run| run.all(&plan));
    if let Err(e) = outcome {
        panic!("{plan:?}\n{}{e}", Ops(plan.ops.clone()));
    }
}

/// What the bytes say.
#[derive(Debug)]
struct Plan {
    /// Bits that choose options.
    config: u8,
    /// Where in the journal the machine stops, of 65536.
    crash_at: usize,
    loss: Loss,
    ops: Vec<Op>,
}

impl Plan {
    fn read(input: &mut Input<'_>) -> Plan {
        let config = input.byte();
        let crash_at = input.below(1 << 16);
        let loss = match input.byte() {
            0 => Loss::None,
            1 => Loss::All,
            seed => Loss::Random(seed.into()),
        };
        let mut ops = Vec::new();
        while !input.is_empty() && ops.len() < MOST {
            ops.push(op(input));
        }
        let ops = legal(&ops);
        Plan {
            config,
            crash_at,
            loss,
            ops,
        }
    }

    fn options(&self, vfs: &SimVfs) -> Options {
        let mut options = small(vfs);
        let bits = |from: u8, n: usize| usize::from(self.config >> from) % n;
        let family = &mut options.default;
        family.enable_blob_files = bits(0, 4) != 0;
        family.min_blob_size = [1, 1, 100, 1000][bits(0, 4)];
        family.compression = [CompressionType::None, CompressionType::Lz4][bits(2, 2)];
        family.blob_compression_type = [CompressionType::None, CompressionType::Zstd][bits(3, 2)];
        family.level0_file_num_compaction_trigger = [1, 4][bits(4, 2)];
        family.num_levels = [7, 2][bits(5, 2)];
        family.block_restart_interval = [16, 1][bits(6, 2)];
        family.bloom_bits_per_key = [10.0, 0.0][bits(7, 2)];
        options
    }
}

/// One operation.
fn op(input: &mut Input<'_>) -> Op {
    let code = input.byte();
    let family = FAMILIES[usize::from(code >> 4) % 4].to_owned();
    let sync = code >= 0x80;
    let bound = |input: &mut Input<'_>| input.byte().checked_sub(0x40).map(key);
    match code % 16 {
        0..=6 => {
            let writes = vec![write(code % 16, &family, input)];
            Op::Write { writes, sync }
        }
        7 => {
            let n = 1 + input.byte() % 5;
            let one = |_| {
                let kind = input.byte();
                write(kind % 8, FAMILIES[usize::from(kind >> 4) % 4], input)
            };
            let writes = (0..n).map(one).collect();
            Op::Write { writes, sync }
        }
        8 => Op::Get {
            family,
            key: key(input.byte()),
            at: snapshot(input),
        },
        9 => Op::Scan {
            family,
            from: bound(input),
            to: bound(input),
            reverse: sync,
            at: snapshot(input),
        },
        10 => Op::Snapshot {
            id: u32::from(input.byte() % 4),
        },
        11 => Op::DropSnapshot {
            id: u32::from(input.byte() % 4),
        },
        12 => Op::Flush { family },
        13 => Op::Compact {
            family,
            from: None,
            to: None,
            bottommost: sync,
        },
        14 => Op::Reopen,
        _ if sync => Op::DropCf { family },
        _ => Op::CreateCf { family },
    }
}

fn write(kind: u8, family: &str, input: &mut Input<'_>) -> Write {
    let family = family.to_owned();
    let key = key(input.byte());
    match kind {
        4 => Write::Delete { family, key },
        5 => Write::SingleDelete { family, key },
        6 => {
            let other = self::key(input.byte());
            Write::DeleteRange {
                family,
                from: key.clone().min(other.clone()),
                to: key.max(other),
            }
        }
        _ => {
            let byte = input.byte();
            let value = Value {
                seed: u64::from(byte >> 3),
                len: LENGTHS[usize::from(byte % 8)],
            };
            Write::Put { family, key, value }
        }
    }
}

fn key(n: u8) -> Vec<u8> {
    format!("k{:02}", n % KEYS).into_bytes()
}

fn snapshot(input: &mut Input<'_>) -> Option<u32> {
    let n = input.byte();
    (n >= 0x80).then(|| u32::from(n % 4))
}

/// A database in use.
struct Run {
    vfs: SimVfs,
    options: Options,
    db: Db,
    history: History,
    snapshots: BTreeMap<u32, (Snapshot, Model)>,
}

impl Run {
    fn new(plan: &Plan) -> Result<Run, String> {
        let vfs = SimVfs::new();
        let options = plan.options(&vfs);
        Ok(Run {
            db: Db::open(DIR, &options).map_err(text)?,
            vfs,
            options,
            history: History::new(),
            snapshots: BTreeMap::new(),
        })
    }

    fn all(mut self, plan: &Plan) -> Check {
        for op in &plan.ops {
            self.apply(op).map_err(|e| format!("{op}: {e}"))?;
        }
        self.compare(&self.db)?;
        self.snapshots.clear();
        self.db.close().map_err(text)?;
        self.crash(plan)
    }

    fn family(&self, name: &str) -> Result<ColumnFamily, String> {
        let family = self.db.column_family(name);
        family.ok_or_else(|| format!("family {name} is missing"))
    }

    fn apply(&mut self, op: &Op) -> Check {
        match op {
            Op::Write { writes, sync } => self.write(writes, *sync)?,
            Op::Get { family, key, at } => {
                let (model, options) = self.sees(*at);
                let found = self.family(family)?.get_with(key, &options).map_err(text)?;
                let expected = model.get(family, key);
                ensure!(found.as_deref() == expected, "{found:?}, not {expected:?}");
            }
            Op::Scan {
                family,
                from,
                to,
                reverse,
                at,
            } => {
                let (model, mut options) = self.sees(*at);
                options.lower_bound = from.clone();
                options.upper_bound = to.clone();
                let found = pairs(&self.family(family)?, &options, *reverse).map_err(text)?;
                let expected = model.scan(family, from.as_deref(), to.as_deref());
                let expected: Pairs = expected.map(|(k, v)| (k.into(), v.into())).collect();
                ensure!(found == expected, "{found:?}, not {expected:?}");
            }
            Op::Snapshot { id } => {
                let taken = (self.db.snapshot(), self.history.last().clone());
                self.snapshots.insert(*id, taken);
            }
            Op::DropSnapshot { id } => drop(self.snapshots.remove(id)),
            Op::Flush { family } => self.family(family)?.flush().map_err(text)?,
            Op::Compact {
                family,
                from,
                to,
                bottommost,
            } => {
                let options = CompactRangeOptions {
                    force_bottommost: *bottommost,
                };
                let family = self.family(family)?;
                let done = family.compact_range(from.as_deref(), to.as_deref(), &options);
                done.map_err(text)?;
            }
            Op::MultiGet { .. } | Op::Iter { .. } | Op::Move { .. } | Op::DropIter { .. } => {}
            Op::Reopen => {
                self.snapshots.clear();
                self.db.close().map_err(text)?;
                self.db = Db::open(DIR, &self.options).map_err(text)?;
                self.compare(&self.db)?;
            }
            Op::CreateCf { family } => {
                let options = self.options.default.clone();
                self.db
                    .create_column_family(family, options)
                    .map_err(text)?;
            }
            Op::DropCf { family } => {
                let family = self.family(family)?;
                self.db.drop_column_family(&family).map_err(text)?;
            }
        }
        let acknowledged = self.history.push(op);
        let durable = match op {
            Op::Write { sync, .. } => *sync,
            Op::CreateCf { .. } | Op::DropCf { .. } | Op::Reopen => true,
            _ => false,
        };
        if durable {
            self.vfs.mark(acknowledged as u64);
        }
        // Nothing goes on in the background meanwhile, so that equal bytes do equal things.
        self.db.wait_idle().map_err(text)
    }

    fn write(&mut self, writes: &[Write], sync: bool) -> Check {
        let mut batch = WriteBatch::new();
        for write in writes {
            let family = self.family(write.family())?;
            match write {
                Write::Put { key, value, .. } => batch.put(&family, key, value.bytes()),
                Write::Delete { key, .. } => batch.delete(&family, key),
                Write::SingleDelete { key, .. } => batch.single_delete(&family, key),
                Write::DeleteRange { from, to, .. } => batch.delete_range(&family, from, to),
            }
            .map_err(text)?;
        }
        let options = WriteOptions {
            sync,
            ..WriteOptions::default()
        };
        self.db.write(batch, &options).map_err(text)
    }

    fn sees(&self, at: Option<u32>) -> (Model, ReadOptions) {
        let mut options = ReadOptions::default();
        match at.and_then(|id| self.snapshots.get(&id)) {
            Some((snapshot, model)) => {
                options.snapshot = Some(snapshot.clone());
                (model.clone(), options)
            }
            None => (self.history.last().clone(), options),
        }
    }

    /// Everything in the database against the model.
    fn compare(&self, db: &Db) -> Check {
        let found = contents(db).map_err(text)?;
        let expected = self.history.last();
        ensure!(found == *expected, "contents {found:?}, not {expected:?}");
        Ok(())
    }

    /// Stops the machine, and looks what is left.
    fn crash(&self, plan: &Plan) -> Check {
        let journal = self.vfs.journal();
        let point = (journal.len() + 1) * plan.crash_at >> 16;
        let at = |e: String| {
            format!(
                "crash at {point} of {}, {:?}: {e}",
                journal.len(),
                plan.loss
            )
        };
        let image = journal.crash_at(point, &plan.loss);
        let at_least = journal.acknowledged_before(point) as usize;
        self.recover(plan, &image, at_least).map_err(at)
    }

    fn recover(&self, plan: &Plan, image: &SimVfs, at_least: usize) -> Check {
        let options = plan.options(image);
        let db = Db::open(DIR, &options).map_err(text)?;
        let found = contents(&db).map_err(text)?;
        let prefix = self.history.matches_some_prefix(&found, at_least);
        prefix.map_err(|diff| diff.to_string())?;
        let Some(family) = db.column_family(DEFAULT) else {
            return Err("no default family".to_owned());
        };
        family.put(b"after", b"the crash").map_err(text)?;
        db.close().map_err(text)?;
        let report = check(DIR.as_ref(), &options, &mut |_| {}).map_err(text)?;
        let (problems, notes) = (&report.problems, &report.notes);
        ensure!(
            problems.is_empty() && notes.is_empty(),
            "{problems:?} {notes:?}"
        );
        let db = Db::open(DIR, &options).map_err(text)?;
        let mut expected = found;
        expected.put(DEFAULT, b"after", b"the crash".to_vec());
        ensure!(contents(&db).map_err(text)? == expected, "lost again");
        db.close().map_err(text)
    }
}
