//! The machine stops at any operation of a workload: what is found is what the database held
//! after some prefix of its batches, whole across families, with everything acknowledged as
//! durable in it (WAL-1).

use titan::{Db, WriteBatch, WriteOptions};
use titan_testkit::history::History;
use titan_testkit::ops::{Generator, Ops, Weights};
use titan_testkit::sim::{CrashPoint, FsOp, Journal, Loss, SimVfs};

use crate::sim::{DIR, Store, contents, misplaced_files, options};

/// What random operations would meet too rarely: blob files of which everything dies, values that
/// a snapshot keeps, a family that goes with its files and comes back, batches over families.
fn scripted() -> Ops {
    let mut text = String::new();
    let mut line = |line: String| text += &(line + "\n");
    line("create-cf cf1".into());
    for i in 0..30 {
        let size = if i % 3 == 0 { 20 } else { 700 };
        line(format!(
            "batch [put default d{i:03} {i}*{size}; put cf1 d{i:03} {i}*{size}; put cf1 s{i:03} {i}*200]"
        ));
    }
    line("sync put default synced 1*50".into());
    line("flush default".into());
    line("snapshot 1".into());
    for i in 0..30 {
        line(format!(
            "batch [put cf1 d{i:03} {}*600; delete default d{i:03}; put default e{i:03} {i}*300]",
            i + 100
        ));
    }
    line("flush cf1".into());
    line("compact cf1".into());
    line("sync delete-range default e000 e015".into());
    line("drop-snapshot 1".into());
    line("compact default".into());
    line("create-cf cf2".into());
    for i in 0..20 {
        line(format!(
            "batch [put cf2 f{i:03} {i}*400; single-delete cf1 s{i:03}]"
        ));
    }
    line("flush cf2".into());
    line("drop-cf cf2".into());
    line("create-cf cf2".into());
    line("sync put cf2 again 3*200".into());
    for i in 0..40 {
        line(format!("put default g{:03} {i}*900", i % 5));
    }
    line("reopen".into());
    for i in 0..25 {
        line(format!(
            "batch [put default g{:03} {i}*150; put cf2 g{i:03} {i}*150]",
            i % 5
        ));
    }
    line("flush default".into());
    line("put cf2 last 5*2000".into());
    Ops::parse(&text).expect("a script that parses")
}

/// Random operations, sized for the small settings.
fn random(seed: u64, n: usize) -> Ops {
    let mut generator = Generator::with_seed(seed);
    generator.weights = Weights {
        put: 200,
        batch: 120,
        single_delete: 40,
        snapshot: 10,
        drop_snapshot: 10,
        flush: 20,
        compact: 8,
        reopen: 3,
        create_cf: 12,
        drop_cf: 3,
        ..Weights::writes_only()
    };
    generator.value_sizes = vec![0, 1, 40, 99, 100, 101, 300, 1000, 5000];
    generator.ops(n)
}

/// Runs a workload once; returns its journal and what happened.
fn run(ops: &Ops, jobs: usize) -> (Journal, History) {
    let vfs = SimVfs::new();
    let mut store = Store::open(&vfs, jobs).unwrap();
    for op in &ops.0 {
        store
            .apply(op)
            .unwrap_or_else(|e| panic!("{op} failed: {e}\n{ops}"));
    }
    store.db.close().unwrap();
    vfs.mark(store.history.len() as u64);
    assert!(contents(&Db::open(DIR, &store.options).unwrap()).unwrap() == *store.history.last());
    (vfs.journal(), store.history)
}

/// Opens what a crash left and checks it. Returns the file system and how much was recovered.
fn recover(
    image: &SimVfs,
    jobs: usize,
    history: &History,
    at_least: usize,
) -> Result<usize, String> {
    let options = options(image, jobs);
    let db = Db::open(DIR, &options).map_err(|e| format!("cannot be opened: {e}"))?;
    let found = contents(&db).map_err(|e| format!("cannot be read: {e}"))?;
    let prefix = history
        .matches_some_prefix(&found, at_least)
        .map_err(|diff| diff.to_string())?;
    let wrong = misplaced_files(&db, image).map_err(|e| format!("does not go on: {e}"))?;
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    Ok(prefix)
}

/// Whether a recovered database takes writes, over all its families, and keeps them.
fn goes_on(image: &SimVfs, jobs: usize) -> titan::Result<()> {
    let options = options(image, jobs);
    let db = Db::open(DIR, &options)?;
    let mut batch = WriteBatch::new();
    let mut expected = contents(&db)?;
    for family in db.column_families() {
        for i in 0..3u8 {
            let (key, value) = ([b'w', i], vec![i; 200]);
            batch.put(&family, key, &value)?;
            expected.put(family.name(), &key, value);
        }
    }
    db.write(batch, &WriteOptions::synced())?;
    drop(db);
    let image = crate::sim::power_cut(image);
    let db = Db::open(DIR, &crate::sim::options(&image, jobs))?;
    assert!(
        contents(&db)? == expected,
        "what was written after recovery"
    );
    db.flush_all()?;
    assert!(
        contents(&db)? == expected,
        "what was flushed after recovery"
    );
    db.close()
}

/// Crashes the recovery of `image` at some of its operations, and recovers again.
fn crash_recovery(
    image: &SimVfs,
    jobs: usize,
    history: &History,
    at_least: usize,
    rng: &mut fastrand::Rng,
) -> Result<(), String> {
    let before = image.journal().len();
    let recovered = {
        let db = Db::open(DIR, &options(image, jobs)).map_err(|e| format!("first opening: {e}"))?;
        let found = contents(&db).map_err(|e| format!("first opening: {e}"))?;
        history
            .matches_some_prefix(&found, at_least)
            .map_err(|diff| format!("first opening: {diff}"))?
    };
    let journal = image.journal();
    for point in journal.crash_points().skip(before) {
        let last = point.index() == journal.len();
        if !last && rng.u8(..4) > 0 {
            continue;
        }
        // Once it is open, what it found is there to stay.
        let at_least = if last { recovered } else { at_least };
        for loss in [Loss::All, Loss::Random(rng.u64(..)), Loss::None] {
            recover(&point.crash(&loss), jobs, history, at_least).map_err(|why| {
                format!(
                    "recovery crashed at {} of {}, {loss:?}: {why}\n{journal}",
                    point.index(),
                    journal.len()
                )
            })?;
        }
    }
    Ok(())
}

/// Whether the crash point is a boundary of durability: something was just made durable, or is
/// about to be, or a name just changed.
fn is_boundary(point: &CrashPoint<'_>, journal: &Journal) -> bool {
    let durable = |op: &FsOp| !matches!(op, FsOp::Append { .. });
    point.last_op().is_none_or(durable) || journal.ops().get(point.index()).is_none_or(durable)
}

fn crash_everywhere(name: &str, ops: &Ops, jobs: usize, seed: u64) {
    let (journal, history) = run(ops, jobs);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut visited = 0;
    for point in journal.crash_points() {
        let boundary = is_boundary(&point, &journal);
        if !boundary && rng.u8(..4) > 0 {
            continue;
        }
        let at_least = point.acknowledged() as usize;
        let fail = |loss: &Loss, why: String| {
            let head: Vec<String> = journal
                .ops()
                .iter()
                .take(point.index())
                .map(|op| op.to_string())
                .collect();
            let tail = head
                .iter()
                .rev()
                .take(60)
                .rev()
                .cloned()
                .collect::<Vec<_>>()
                .join("\n");
            panic!(
                "{name}, {jobs} jobs, seed {seed}: crash at {} of {}, {loss:?}: {why}\n{tail}",
                point.index(),
                journal.len()
            )
        };
        let losses = [
            Loss::None,
            Loss::All,
            Loss::Random(rng.u64(..)),
            Loss::Random(rng.u64(..)),
        ];
        for loss in &losses {
            let image = point.crash(loss);
            if let Err(why) = recover(&image, jobs, &history, at_least) {
                fail(loss, why);
            }
            visited += 1;
            if visited % 11 == 0
                && let Err(e) = goes_on(&image, jobs)
            {
                fail(loss, e.to_string());
            }
            if visited % 41 == 0 {
                let image = point.crash(loss);
                if let Err(why) = crash_recovery(&image, jobs, &history, at_least, &mut rng) {
                    fail(loss, why);
                }
            }
        }
        if let Some(image) = point.kill_within(rng.u64(..))
            && let Err(why) = recover(&image, jobs, &history, at_least)
        {
            fail(&Loss::None, format!("killed within the next append: {why}"));
        }
    }
    assert!(visited > 500, "only {visited} crashes");
}

#[test]
fn every_crash_of_the_script_leaves_a_prefix_with_one_background_job() {
    crash_everywhere("script", &scripted(), 1, 11);
}

#[test]
fn every_crash_of_the_script_leaves_a_prefix_with_four_background_jobs() {
    crash_everywhere("script", &scripted(), 4, 12);
}

#[test]
fn every_crash_of_random_operations_leaves_a_prefix() {
    for seed in 1..=3 {
        crash_everywhere(
            &format!("random operations {seed}"),
            &random(seed, 250),
            2,
            seed,
        );
    }
}

#[test]
fn a_closed_database_keeps_everything() {
    let vfs = SimVfs::new();
    let mut store = Store::open(&vfs, 2).unwrap();
    for op in &random(9, 400).0 {
        store.apply(op).unwrap();
    }
    store.db.close().unwrap();
    let image = crate::sim::power_cut(&vfs);
    let db = Db::open(DIR, &options(&image, 2)).unwrap();
    assert!(contents(&db).unwrap() == *store.history.last());
}
