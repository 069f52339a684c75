//! The simulated file system and the operating system's give the same results.

use std::path::Path;

use titan::vfs::{Access, StdVfs, Vfs};
use titan::{ErrorKind, Result};
use titan_testkit::sim::SimVfs;

/// One random operation's outcome, in a form that can be compared.
fn step(vfs: &dyn Vfs, root: &Path, rng: &mut fastrand::Rng) -> Result<String> {
    let names = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "missing/a"];
    let mut name = || root.join(rng.choice(names).unwrap_or("a"));
    let (one, other) = (name(), name());
    match rng.u8(..10) {
        0..=2 => {
            let mut file = vfs.create(&one)?;
            file.append(&vec![rng.u8(..); rng.usize(..10_000)])?;
            // A name may be removed while the handle stays open.
            let gone = rng.bool().then(|| vfs.remove(&one)).transpose()?;
            file.append(b"end")?;
            file.sync()?;
            Ok(format!("{gone:?}"))
        }
        3 => {
            let file = vfs.open(&one, Access::Random)?;
            let mut buf = vec![0; rng.usize(..9000)];
            let n = file.read_at(rng.u64(..12_000), &mut buf)?;
            Ok(format!("{} {n} {:?}", file.size()?, buf))
        }
        4 => vfs.remove(&one).map(|()| "removed".into()),
        5 => vfs.rename(&one, &other).map(|()| "renamed".into()),
        6 => vfs.create_dir_all(&one).map(|()| "made".into()),
        7 => vfs.remove_dir(&one).map(|()| "removed".into()),
        8 => {
            let mut names = vfs.read_dir(&one)?;
            names.sort();
            Ok(format!("{names:?}"))
        }
        _ => vfs.exists(&one).map(|exists| exists.to_string()),
    }
}

#[test]
fn random_operations_have_equal_outcomes() {
    for seed in 0..40 {
        let temp = tempfile::tempdir().unwrap();
        let sim = SimVfs::new();
        sim.create_dir_all(temp.path()).unwrap();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut failures = 0;
        for n in 0..150 {
            let mut same = rng.clone();
            let real = step(&StdVfs, temp.path(), &mut rng);
            let simulated = step(&sim, temp.path(), &mut same);
            let kinds = |r: Result<String>| r.map_err(|e| (e.kind(), e.io_kind()));
            let (real, simulated) = (kinds(real), kinds(simulated));
            failures += usize::from(real.is_err());
            // On Linux opening a directory for reading succeeds, and only reading it
            // fails.
            if matches!(&real, Err((ErrorKind::Io, _))) && simulated.is_err() {
                continue;
            }
            assert!(
                real == simulated,
                "seed {seed} step {n}: {real:?} {simulated:?}"
            );
        }
        assert!(failures < 130, "seed {seed}: hardly anything succeeded");
    }
}
