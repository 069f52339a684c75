//! Random operations on two file systems in step: everything that can be seen must be equal.
//!
//! tmpfs is the reference. [`two_file_systems_of_the_kernel_agree`] holds it against ext4, which
//! shows that what is compared does not depend on the file system, and
//! [`a_difference_is_found_and_reduced`] shows that differences are found.
//!
//! A failure prints a reduced list of operations. Replay it with the file's path in
//! `TIFS_MODEL_REPLAY`. `TIFS_MODEL_SEED` sets the first seed, `TIFS_MODEL_CASES` the number of
//! lists, `TIFS_MODEL_STEPS` the number of operations in each.

use std::path::Path;

use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

use tifs_testkit::ops::{Features, Ops, Programs};
use tifs_testkit::regression::{Regression, Trial};
use tifs_testkit::system::{Counts, Pair};

use crate::places::{self, Tmpfs, Volume};

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
        let file = Path::new(&file);
        return replay(pair, file, &read(file));
    }
    for seed in extent.seed..extent.seed + extent.cases {
        let steps = Programs::new(seed, features).ops(extent.steps).0;
        if let Some(difference) = pair.run(&steps) {
            println!("seed {seed}: {difference}");
            let (ops, difference) = pair.reduce(&steps, difference);
            let trial = Trial::Mounted;
            panic!("seed {seed}: {difference}\n{}", Regression { trial, ops });
        }
    }
    let Counts {
        performed,
        succeeded,
        skipped,
    } = pair.counts();
    println!("{succeeded} of {performed} operations succeeded");
    assert_eq!(skipped, 0, "operations without a system call");
    assert!(succeeded * 4 > performed, "{succeeded} of {performed}");
}

fn read(file: &Path) -> Regression {
    let text = std::fs::read_to_string(file).unwrap();
    text.parse()
        .unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn replay(pair: &mut Pair, file: &Path, regression: &Regression) {
    if let Some(difference) = pair.run(&regression.ops.0) {
        panic!("{}: {difference}", file.display());
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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let regression = read(&path);
        if regression.trial == Trial::Mounted {
            replay(&mut pair, &path, &regression);
        }
    }
    compare(&mut pair, features, &Extent::new(20, 1000));
}

#[test]
fn a_difference_is_found_and_reduced() {
    if !places::enter() {
        return;
    }
    let (small, large) = (Tmpfs::with_options("size=64k"), Tmpfs::new());
    let mut pair = Pair::new([small.path(), large.path()], None);
    let steps = Programs::new(1, Features::ALL).ops(1000).0;
    let difference = pair.run(&steps).unwrap();
    let (reduced, difference) = pair.reduce(&steps, difference);
    assert!(reduced.0.len() <= 3, "{difference}\n{reduced}");
    assert_eq!(reduced.to_string().parse(), Ok(reduced));
}

#[test]
fn operations_without_a_system_call_do_not_count_as_equal() {
    if !places::enter() {
        return;
    }
    let (one, other) = (Tmpfs::new(), Tmpfs::new());
    let mut pair = Pair::new([one.path(), other.path()], None);
    let steps: Ops = "mkdir 0/a 755 22 -\nreclaim\nrmdir 0/none\nflush"
        .parse()
        .unwrap();
    assert!(pair.run(&steps.0).is_none());
    let counts = Counts {
        performed: 2,
        succeeded: 1,
        skipped: 2,
    };
    assert_eq!(pair.counts(), counts);
}

/// Each way in which a file grows, after each way in which it was cut, by system calls.
#[test]
fn what_was_cut_is_zeros_however_a_file_grows() {
    if !places::enter() {
        return;
    }
    let Some(volume) = Volume::with_options("nodev,nosuid,noatime") else {
        return;
    };
    let tmpfs = Tmpfs::new();
    let roots = [volume.path(), tmpfs.path().to_owned()];
    let mut pair = Pair::new(roots, None);
    // The last one has more blocks than a truncation deletes at once.
    for (size, at, to) in [
        (3000, 100, 50_000),
        (100_000, 20_000, 90_000),
        (9_000_000, 16_384, 1 << 24),
    ] {
        let cuts = [
            format!("set 1 - - - {at} - -"),
            format!("set @0/a - - - {at} - -"),
            "open 0/a rw truncate 644 0 2".to_owned(),
            format!("allocate 1 {at} {size} punch"),
            format!("allocate 1 {at} {size} zero-keep-size"),
            format!("unlink 0/a\nset 1 - - - {at} - -"),
            format!("rename 0/b 0/a replace\nset 1 - - - {at} - -"),
            format!("fsync 1 false\nset 1 - - - {at} - -\nfsync 1 true"),
        ];
        let growths = [
            format!("write 1 {to} 9*100"),
            "open 0/a rw append 644 0 3\nwrite 3 - 9*100".to_owned(),
            format!("set 1 - - - {to} - -"),
            format!("set 1 - - - {to} - -\nmmap 1 {} 8*600", to - 700),
            format!("allocate 1 {at} {} extend", to - at),
            format!("allocate 1 {at} {} zero", to - at),
            format!("open 0/c rw create 644 0 3\nwrite 3 0 5*3000\ncopy 3 0 1 {to} 3000"),
        ];
        for cut in &cuts {
            for growth in &growths {
                let text = format!(
                    "open 0/b rw create 644 0 2\nopen 0/a rw create 644 0 1\nwrite 1 0 7*{size}\n\
                     {cut}\n{growth}\nread 1 0 200000\nread 1 {} 5000\nfsync 1 false\n\
                     read 1 0 200000\nread 1 {} 5000\n",
                    to - 1000,
                    to - 1000
                );
                let ops: Ops = text.parse().unwrap();
                if let Some(difference) = pair.run(&ops.0) {
                    panic!("{difference}\n{text}");
                }
            }
        }
    }
    drop(pair);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while volume.accounts() != (0, 0) {
        let left = volume.accounts();
        assert!(std::time::Instant::now() < until, "left over: {left:?}");
        std::thread::yield_now();
    }
}
