//! A repair that is interrupted.

use std::path::Path;

use titan::ErrorKind;
use titan::vfs::Vfs;
use titan_testkit::sim::{Fault, Loss as CrashLoss, OpKind, SimVfs};
use titan_tools::{RepairReport, RepairTo, repair};

use super::damage::damage;
use super::{Case, REPAIRED};
use titan_testkit::setup::DIR;

/// Flips a bit in the middle of the newest WAL.
fn damage_wal(vfs: &SimVfs) -> String {
    let names = vfs.list(DIR).unwrap();
    let wals = names.into_iter().filter(|name| name.ends_with(".log"));
    let name = wals.max().unwrap();
    let path = format!("{DIR}/{name}");
    let at = vfs.read_all(&path).unwrap().len() as u64 / 2;
    vfs.flip_bit(&path, at).unwrap();
    format!("{name} flipped at {at}")
}

#[test]
fn an_interrupted_repair_in_place_can_be_run_again() {
    let mut points = 0;
    for seed in 0..9 {
        let mut case = Case::with_seed(seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        let (done, traceless) = match seed {
            // The MANIFEST stays good, and what was replayed must not contradict it.
            6.. => (damage_wal(&case.vfs), true),
            _ => damage(&case.vfs, &mut rng),
        };
        case.options.families.clear();
        let case = case.on_a_copy();
        case.vfs.mark(1);
        let mut report = case.repair(&RepairTo::InPlace);
        if traceless {
            report.lost.push(titan_tools::Loss::default());
        }
        let journal = case.vfs.journal();
        let uninterrupted = case.contents(DIR);
        for point in journal.crash_points() {
            if point.acknowledged() == 0 {
                continue; // still copying
            }
            points += 1;
            for loss in [CrashLoss::All, CrashLoss::None, CrashLoss::Random(seed)] {
                let after = case.on(point.crash(&loss));
                let what = format!("seed {seed}, {done}, crash {} {loss:?}", point.index());
                let again = repair(
                    Path::new(DIR),
                    &RepairTo::InPlace,
                    &after.options,
                    &mut |_| {},
                );
                let mut again = again.unwrap_or_else(|e| panic!("{what}: {e}"));
                let doubted = |report: &RepairReport| {
                    report.lost.iter().any(|l| l.file.starts_with("MANIFEST"))
                };
                assert!(doubted(&report) || !doubted(&again), "{what}: {again:#?}");
                // The second run does not report again what the first run lost and reported.
                again.lost.extend(report.lost.clone());
                after.verify(DIR, &again, &what);
                assert_eq!(after.contents(DIR), uninterrupted, "{what}");
                let names = after.vfs.list(DIR).unwrap();
                assert!(
                    !names.contains(&"repairing".to_owned()),
                    "{what}: {names:?}"
                );
            }
        }
    }
    assert!(points > 100, "{points}");
}

#[test]
fn what_an_interrupted_repair_replaced_is_not_purged_at_opening() {
    let case = Case::with_seed(3).on_a_copy();
    let table = |name: &&String| name.ends_with(".log") || name.starts_with("MANIFEST");
    let before = case.vfs.list(DIR).unwrap();
    let originals: Vec<&String> = before.iter().filter(table).collect();
    case.vfs.mark(1);
    case.repair(&RepairTo::InPlace);
    for point in case.vfs.journal().crash_points() {
        if point.acknowledged() == 0 {
            continue;
        }
        let after = case.on(point.crash(&CrashLoss::All));
        let current = |case: &Case| case.vfs.read_all(format!("{DIR}/CURRENT")).unwrap();
        if current(&after) != current(&case) {
            continue;
        }
        after.open(DIR).close().unwrap();
        let lost = after.vfs.list(format!("{DIR}/lost")).unwrap();
        for name in &originals {
            assert!(lost.contains(name), "{}: {name}: {lost:?}", point.index());
        }
    }
}

#[test]
fn a_repair_into_a_directory_that_failed_can_be_run_again() {
    let case = Case::with_seed(1);
    let to = RepairTo::Directory(REPAIRED.into());
    for n in 0.. {
        let kinds = [OpKind::Create, OpKind::Link, OpKind::Sync, OpKind::Rename];
        let fault = Fault::on(kinds).path(&format!("{REPAIRED}/*")).skip(n);
        let hit = case.vfs.inject(fault);
        let outcome = repair(Path::new(DIR), &to, &case.options, &mut |_| {});
        case.vfs.clear_faults();
        if hit.hits() == 0 {
            assert!(n > 5, "{n}");
            outcome.unwrap();
            break;
        }
        outcome.unwrap_err();
        let done = case.vfs.exists(&Path::new(REPAIRED).join("CURRENT"));
        assert!(!done.unwrap(), "{n}");
    }
    assert_eq!(case.contents(REPAIRED), case.newest());
    // When the repair is done, another run changes nothing.
    let again = repair(Path::new(DIR), &to, &case.options, &mut |_| {});
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
}
