//! Any damage to any file.

use std::path::Path;

use titan::vfs::Vfs;
use titan_testkit::sim::SimVfs;
use titan_tools::{RepairTo, repair};

use super::{Case, REPAIRED};
use titan_testkit::setup::DIR;

/// Damages one file. Returns what was done, and whether that leaves no trace: the end of the newest
/// WAL can be anywhere.
pub(super) fn damage(vfs: &SimVfs, rng: &mut fastrand::Rng) -> (String, bool) {
    let mut names = vfs.list(DIR).unwrap();
    names.retain(|name| name != "LOCK");
    let wals = names.iter().filter(|name| name.ends_with(".log"));
    let newest_wal = wals.max().cloned();
    let name = names[rng.usize(..names.len())].clone();
    let path = format!("{DIR}/{name}");
    let mut bytes = vfs.read_all(&path).unwrap();
    let mut traceless = Some(&name) == newest_wal.as_ref();
    let what = match rng.u32(..4) {
        0 => {
            vfs.remove(Path::new(&path)).unwrap();
            vfs.sync_all().unwrap();
            return (format!("{name} removed"), traceless);
        }
        1 => {
            let len = rng.usize(..=bytes.len());
            bytes.truncate(len);
            format!("{name} cut to {len}")
        }
        2 if !bytes.is_empty() => {
            traceless = false;
            let at = rng.usize(..bytes.len());
            bytes[at] ^= 1 << rng.u8(..8);
            format!("{name} flipped at {at}")
        }
        _ => {
            let at = rng.usize(..=bytes.len());
            let end = (at + rng.usize(1..600)).min(bytes.len());
            bytes[at..end].fill(0);
            format!("{name} zeroed {at}..{end}")
        }
    };
    vfs.write_all(&path, &bytes).unwrap();
    (what, traceless)
}

#[test]
fn an_undamaged_database_keeps_everything() {
    for seed in 0..12 {
        let case = Case::with_seed(seed);
        let before = case.vfs.list(DIR).unwrap();
        let report = case.repair(&RepairTo::Directory(REPAIRED.into()));
        assert!(report.lost.is_empty(), "seed {seed}: {:?}", report.lost);
        assert!(report.salvaged.is_empty() && report.merged_tables == 0);
        assert_eq!(case.vfs.list(DIR).unwrap(), before, "nothing was changed");
        assert_eq!(case.contents(REPAIRED), case.newest(), "seed {seed}");
        let report = case.repair(&RepairTo::InPlace);
        assert!(report.lost.is_empty(), "seed {seed}: {:?}", report.lost);
        case.verify(DIR, &report, &format!("seed {seed}"));
        assert_eq!(case.contents(DIR), case.newest(), "seed {seed}");
    }
}

#[test]
fn what_survives_damage_is_there_and_what_does_not_is_told() {
    // To search further: REPAIR_SEED=1000 REPAIR_ROUNDS=5000.
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let first = number("REPAIR_SEED").unwrap_or(0);
    let rounds = first..first + number("REPAIR_ROUNDS").unwrap_or(100);
    // Seeds that found something: the number of a lost blob file was given to a new one; a family
    // got the name of another one; nothing was left that knew of a table.
    for seed in rounds.chain([2366, 10073, 10296]) {
        let mut case = Case::with_seed(seed / 3);
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let mut what = format!("seed {seed}");
        let mut traceless = false;
        let (mut table_gone, mut manifest_damaged) = (false, false);
        for _ in 0..rng.usize(1..4) {
            let (done, silent) = damage(&case.vfs, &mut rng);
            traceless |= silent;
            table_gone |= done.ends_with(".sst removed");
            manifest_damaged |= done.starts_with("MANIFEST") || done.starts_with("CURRENT");
            what += &format!(", {done}");
        }
        // Nothing else knows of a table that is gone.
        traceless |= table_gone && manifest_damaged;
        let (to, dir) = match rng.bool() {
            true => (RepairTo::Directory(REPAIRED.into()), REPAIRED),
            false => (RepairTo::InPlace, DIR),
        };
        // Families whose name is lost get the default options.
        case.options.families.clear();
        let mut report = match repair(Path::new(DIR), &to, &case.options, &mut |_| {}) {
            Ok(report) => report,
            Err(e) => panic!("{what}: {e}"),
        };
        if traceless {
            report.lost.push(titan_tools::Loss::default());
        }
        case.verify(dir, &report, &what);
    }
}
