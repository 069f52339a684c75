//! Random operations on two file systems in step: everything that can be seen must be equal.
//!
//! | module | owns |
//! |---|---|
//! | `op` | operations as values and as text |
//! | `generate` | random ones |
//! | `perform` | operations as system calls |
//! | `outcome` | what they lead to |
//! | `tree` | all that a file system has |
//! | `side` | one of the two file systems |
//! | `pair` | both, in step |
//! | `reduce` | short lists that still fail |
//!
//! tmpfs is the reference. [`two_file_systems_of_the_kernel_agree`] holds it against ext4, which
//! shows that what is compared does not depend on the file system, and
//! [`a_difference_is_found_and_reduced`] shows that differences are found.
//!
//! A failure prints a reduced list of operations. Replay it with the file's path in
//! `TIFS_MODEL_REPLAY`. `TIFS_MODEL_SEED` sets the first seed, `TIFS_MODEL_CASES` the number of
//! lists, `TIFS_MODEL_STEPS` the number of operations in each.

mod generate;
mod op;
mod outcome;
mod pair;
mod perform;
mod reduce;
mod side;
mod tree;

use std::path::Path;

use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

use self::generate::Generator;
use self::op::Step;
use self::pair::Pair;
use crate::places::{self, Tmpfs, Volume};

/// Features of both file systems that some lack.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// `O_TMPFILE`.
    unnamed: bool,
    /// `O_DIRECT` with any offset and length.
    direct: bool,
    /// `RENAME_WHITEOUT`.
    whiteout: bool,
}

/// The size of a run.
struct Extent {
    seed: u64,
    cases: u64,
    steps: usize,
}

impl Extent {
    fn new(cases: u64, steps: usize) -> Extent {
        let number = |name: &str| {
            let value = std::env::var(name).ok()?;
            Some(
                value
                    .parse::<u64>()
                    .unwrap_or_else(|e| panic!("{name}: {e}")),
            )
        };
        Extent {
            seed: number("TIFS_MODEL_SEED").unwrap_or(1),
            cases: number("TIFS_MODEL_CASES").unwrap_or(cases),
            steps: number("TIFS_MODEL_STEPS").map_or(steps, |n| n as usize),
        }
    }
}

/// Runs lists of operations on both file systems.
///
/// # Panics
/// They differ. The message has the reduced list.
fn compare(pair: &mut Pair, features: Features, extent: &Extent) {
    if let Some(file) = std::env::var_os("TIFS_MODEL_REPLAY") {
        let steps = op::from_text(&std::fs::read_to_string(file).unwrap());
        if let Some(difference) = pair.run(&steps) {
            panic!("{difference}");
        }
        return;
    }
    for seed in extent.seed..extent.seed + extent.cases {
        let mut generator = Generator::new(seed, features);
        let steps: Vec<Step> = (0..extent.steps).map(|_| generator.step()).collect();
        if let Some(difference) = pair.run(&steps) {
            println!("seed {seed}: {difference}");
            let (steps, difference) = reduce::reduce(steps, difference, |steps| pair.run(steps));
            panic!("seed {seed}: {difference}\n{}", op::to_text(&steps));
        }
    }
}

/// Whether a file system has `O_TMPFILE`.
fn has_unnamed(root: &Path) -> bool {
    rustix::fs::open(root, OFlags::RDWR | OFlags::TMPFILE, Mode::RUSR).is_ok()
}

/// The directory for temporary files, if it is on ext4.
fn on_ext4() -> Result<TempDir, String> {
    const EXT4: i64 = 0xef53;
    let directory = TempDir::new().map_err(|e| e.to_string())?;
    let found = rustix::fs::statfs(directory.path()).map_err(|e| e.to_string())?;
    match found.f_type {
        EXT4 => Ok(directory),
        other => Err(format!("it is on a file system of type {other:#x}")),
    }
}

#[test]
fn two_file_systems_of_the_kernel_agree() {
    let needed = "ext4 for temporary files";
    let Some(directory) = titan_testkit::requirement::met(needed, on_ext4()) else {
        return;
    };
    if !places::enter() {
        return;
    }
    let tmpfs = Tmpfs::new();
    places::without_access_times(directory.path());
    let features = Features {
        unnamed: true,
        direct: false,
        whiteout: true,
    };
    let mut pair = Pair::new([directory.path(), tmpfs.path()], None);
    compare(&mut pair, features, &Extent::new(20, 1000));
}

#[test]
fn a_volume_agrees_with_tmpfs() {
    if !places::enter() {
        return;
    }
    let Some(mut volume) = Volume::with_options("nodev,nosuid,noatime") else {
        return;
    };
    let tmpfs = Tmpfs::new();
    let features = Features {
        unnamed: has_unnamed(&volume.path()),
        direct: true,
        whiteout: true,
    };
    let roots = [volume.path(), tmpfs.path().to_owned()];
    let mut remount = || {
        volume.unmount();
        volume.mount();
    };
    let mut pair = Pair::new(roots, Some(&mut remount));
    compare(&mut pair, features, &Extent::new(20, 1000));
}

#[test]
fn a_difference_is_found_and_reduced() {
    if !places::enter() {
        return;
    }
    let (small, large) = (Tmpfs::with_options("size=64k"), Tmpfs::new());
    let features = Features {
        unnamed: true,
        direct: true,
        whiteout: true,
    };
    let mut pair = Pair::new([small.path(), large.path()], None);
    let mut generator = Generator::new(1, features);
    let steps: Vec<Step> = (0..1000).map(|_| generator.step()).collect();
    let difference = pair.run(&steps).unwrap();
    let (reduced, difference) = reduce::reduce(steps, difference, |steps| pair.run(steps));
    assert!(
        reduced.len() <= 3,
        "{difference}\n{}",
        op::to_text(&reduced)
    );
    assert_eq!(op::from_text(&op::to_text(&reduced)), reduced);
}
