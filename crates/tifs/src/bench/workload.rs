//! The workloads: calls of programs that are timed.
//!
//! The workloads of a round run in the order of [`Workload::ALL`]: later ones use the files of
//! earlier ones.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The size of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Files and directories.
    pub files: usize,
    /// Bytes of the large file.
    pub file_bytes: u64,
    /// Random writes into it.
    pub random_writes: usize,
}

impl Default for Scale {
    fn default() -> Self {
        Scale {
            files: 2000,
            file_bytes: 1 << 30,
            random_writes: 4096,
        }
    }
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Creating empty files in one directory.
    Create,
    /// Creating files and writing 4 KiB.
    CreateWrite,
    /// Opening those files and reading them.
    OpenRead,
    /// Reading the attributes of those files when the kernel has them in its cache.
    Stat,
    /// Creating directories.
    MakeDirectory,
    /// Moving files to another directory.
    Rename,
    /// Removing files.
    Unlink,
    /// Creating files, writing 4 KiB and making that durable.
    WriteSync,
    /// Writing a large file in order, made durable at the end.
    SequentialWrite,
    /// Reading it in order, from the device as far as the kernel's cache allows.
    SequentialRead,
    /// Writing 4 KiB at random places of it, made durable after every 32.
    RandomWrite,
}

/// Bytes of a small file, and of a random write.
const SMALL: usize = 4096;
/// Bytes of a call that reads or writes in order.
const CHUNK: usize = 1 << 20;
/// Readings of each file's attributes: one reading is shorter than the clock's noise.
const STATS: usize = 20;
/// Random writes between two that make them durable.
const BETWEEN_SYNCS: usize = 32;

impl Workload {
    /// All, in the order in which they run.
    pub const ALL: [Workload; 11] = [
        Workload::Create,
        Workload::CreateWrite,
        Workload::OpenRead,
        Workload::Stat,
        Workload::MakeDirectory,
        Workload::Rename,
        Workload::Unlink,
        Workload::WriteSync,
        Workload::SequentialWrite,
        Workload::SequentialRead,
        Workload::RandomWrite,
    ];

    /// Its name, stable, for `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Create => "create",
            Workload::CreateWrite => "create + write 4 KiB",
            Workload::OpenRead => "open + read 4 KiB",
            Workload::Stat => "stat",
            Workload::MakeDirectory => "mkdir",
            Workload::Rename => "rename",
            Workload::Unlink => "unlink",
            Workload::WriteSync => "write 4 KiB + fsync",
            Workload::SequentialWrite => "sequential write",
            Workload::SequentialRead => "sequential read",
            Workload::RandomWrite => "random write 4 KiB",
        }
    }

    /// The unit of its rate.
    pub fn unit(self) -> &'static str {
        match self {
            Workload::SequentialWrite | Workload::SequentialRead => "MiB",
            _ => "operations",
        }
    }

    /// Runs it in a directory. Returns the number of units, and the time.
    pub(super) fn run(self, place: &Path, scale: &Scale) -> io::Result<(u64, Duration)> {
        let large = place.join("large");
        let mebibytes = scale.file_bytes >> 20;
        match self {
            Workload::Create => each(place, "empty", scale.files, |path| {
                File::create(path).map(drop)
            }),
            Workload::CreateWrite => each(place, "small", scale.files, |path| {
                File::create(path)?.write_all(&[7; SMALL])
            }),
            Workload::OpenRead => {
                let mut content = [0; SMALL];
                each(place, "small", scale.files, |path| {
                    File::open(path)?.read_exact(&mut content)
                })
            }
            Workload::Stat => {
                let paths = paths(place, "small", scale.files);
                let all = || {
                    paths
                        .iter()
                        .try_for_each(|path| fs::metadata(path).map(drop))
                };
                all()?;
                timed((scale.files * STATS) as u64, || {
                    (0..STATS).try_for_each(|_| all())
                })
            }
            Workload::MakeDirectory => {
                each(place, "directory", scale.files, |path| fs::create_dir(path))
            }
            Workload::Rename => {
                let target = place.join("moved");
                fs::create_dir_all(&target)?;
                each(place, "small", scale.files, |path| {
                    let name = path.file_name().unwrap_or_default();
                    fs::rename(path, target.join(name))
                })
            }
            Workload::Unlink => each(place, "moved/small", scale.files, |path| {
                fs::remove_file(path)
            }),
            Workload::WriteSync => each(place, "synced", scale.files / 8 + 1, |path| {
                let mut file = File::create(path)?;
                file.write_all(&[7; SMALL])?;
                file.sync_all()
            }),
            Workload::SequentialWrite => {
                let mut chunk = vec![0; CHUNK];
                fastrand::Rng::with_seed(1).fill(&mut chunk);
                timed(mebibytes, || {
                    let mut file = File::create(&large)?;
                    for _ in 0..mebibytes {
                        file.write_all(&chunk)?;
                    }
                    file.sync_all()
                })
            }
            Workload::SequentialRead => {
                forget_pages(&large)?;
                let mut chunk = vec![0; CHUNK];
                timed(mebibytes, || {
                    let mut file = File::open(&large)?;
                    while file.read(&mut chunk)? > 0 {}
                    Ok(())
                })
            }
            Workload::RandomWrite => {
                let mut random = fastrand::Rng::with_seed(2);
                let blocks = (scale.file_bytes / SMALL as u64).max(1);
                let file = OpenOptions::new().write(true).open(&large)?;
                timed(scale.random_writes as u64, || {
                    for number in 1..=scale.random_writes {
                        let offset = random.u64(..blocks) * SMALL as u64;
                        file.write_all_at(&[number as u8; SMALL], offset)?;
                        if number.is_multiple_of(BETWEEN_SYNCS) {
                            file.sync_data()?;
                        }
                    }
                    Ok(())
                })
            }
        }
    }
}

fn timed(amount: u64, work: impl FnOnce() -> io::Result<()>) -> io::Result<(u64, Duration)> {
    let started = Instant::now();
    work()?;
    Ok((amount, started.elapsed()))
}

fn paths(place: &Path, name: &str, count: usize) -> Vec<PathBuf> {
    let path = |number| place.join(format!("{name}{number}"));
    (0..count).map(path).collect()
}

/// Does something with each of many paths with the same beginning.
fn each(
    place: &Path,
    name: &str,
    count: usize,
    mut work: impl FnMut(&Path) -> io::Result<()>,
) -> io::Result<(u64, Duration)> {
    let paths = paths(place, name, count);
    timed(count as u64, || {
        paths.iter().try_for_each(|path| work(path))
    })
}

/// Asks the kernel to drop a file's pages from its cache.
fn forget_pages(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}
