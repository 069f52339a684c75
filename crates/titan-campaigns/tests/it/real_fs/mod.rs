//! The system calls of `StdVfs` keep what the engine promises.
//!
//! A process runs a workload on a real file system while `strace` records its system calls. They
//! are replayed on the simulated file system, which knows what each of them makes durable. Then the
//! machine is crashed, as in the crash campaign: the engine must recover everything that the
//! process had been promised at that moment. So a sync, or the sync of a directory, that `StdVfs`
//! leaves out is noticed, as is a byte that it writes to the wrong place.
//!
//! | file | owns |
//! |---|---|
//! | `worker` | the recorded process |
//! | `strace` | recording and parsing system calls |
//! | `replay` | their effects on the simulated file system |

mod replay;
mod strace;
mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use titan::Db;
use titan_campaigns::recovery::{is_sound, recover};
use titan_campaigns::settings::Settings;
use titan_campaigns::workloads::{Workload, brief, scripts};
use titan_testkit::ledger::{End, Keys, Ledger};
use titan_testkit::model::Model;
use titan_testkit::ops::{Op, Ops};
use titan_testkit::reads::contents;
use titan_testkit::sim::{CrashPoint, Loss, SimVfs};
use titan_testkit::{mix, requirement};

use self::replay::Replayed;
use self::worker::Place;

/// A workload for the recorded process.
pub struct Case {
    name: &'static str,
    settings: Settings,
    direct: bool,
    ops: Vec<Op>,
}

/// If it is set, the machine is crashed at all points instead of some.
const ALL: &str = "TITAN_TEST_REAL_FS_ALL";
/// Otherwise one point in this many is crashed in all ways, besides those at which something has
/// just been promised.
const EVERY: u64 = 8;
/// Of everything random.
const SEED: u64 = 5;

fn cases() -> Vec<Case> {
    let of = |workloads: Vec<Workload>, wanted: &str| {
        let mut all = workloads.into_iter();
        all.find(|workload| workload.name == wanted).unwrap()
    };
    let everything = of(brief(), "script");
    let holes = of(scripts(), "garbage is given back as holes");
    let unlogged = of(scripts(), "past the log");
    let mut with_checkpoint = everything.ops;
    with_checkpoint.insert(with_checkpoint.len() / 3, Op::Checkpoint);
    let case = |name, settings, direct, ops| Case {
        name,
        settings,
        direct,
        ops,
    };
    let collecting = Settings {
        collects: true,
        ..Settings::jobs(2)
    };
    vec![
        case("buffered", everything.settings, false, with_checkpoint),
        case("direct", collecting, true, large_values()),
        case("holes", holes.settings, false, holes.ops),
        case("unlogged", unlogged.settings, false, unlogged.ops),
    ]
}

/// Records that the log is not extended for, files of more than one buffer of direct I/O, and small
/// ones.
fn large_values() -> Vec<Op> {
    let text = "\
create-cf cf1
put default small 1*100
sync put cf1 k1 2*66000
batch [put default k2 3*30000; put cf1 k3 4*1300000]
sync put default k4 5*10
flush cf1
sync batch [put default k2 6*35000; put default k5 7*70000]
checkpoint
flush default
put cf1 k3 8*1100000
put cf1 k6 9*200
flush cf1
compact cf1
put default k7 10*4096
collect cf1
reopen
sync put default k8 11*90000
put default k9 12*33
compact default
put cf1 k1 13*5000
";
    Ops::parse(text).unwrap().0
}

/// Operations of the recorded process, and the promises to it.
struct Story {
    replayed: Replayed,
    ledger: Ledger,
    /// For each checkpoint, the first point at which it must be there, and its contents.
    checkpoints: Vec<(usize, PathBuf, Model)>,
}

fn story(case: &Case, dir: &Path) -> Story {
    worker::run(case, dir);
    let place = Place::new(dir);
    let trace = std::fs::read_to_string(&place.trace).unwrap();
    let calls = strace::parse(&trace);
    let mut ledger = Ledger::new(match case.settings.unlogged {
        true => Keys::ByFamily,
        false => Keys::Together,
    });
    let mut checkpoints = Vec::new();
    let mut marks = 0;
    let replayed = replay::replay(&calls, &place.root, &place.marks, |vfs, n| {
        marks += 1;
        let op = case.ops.get(n).unwrap_or(&Op::Close);
        if *op == Op::Checkpoint {
            let point = vfs.journal().len();
            checkpoints.push((point, worker::checkpoint(n), ledger.present().clone()));
        }
        ledger.push(op);
        vfs.mark(ledger.now());
    });
    assert_eq!(
        marks,
        case.ops.len() + 1,
        "marks of operations, and of the end"
    );
    Story {
        replayed,
        ledger,
        checkpoints,
    }
}

/// All files below a directory.
fn files(dir: &Path, name: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = name.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => files(&entry.path(), &name, found),
            false => drop(found.insert(name, std::fs::read(entry.path()).unwrap())),
        }
    }
}

/// The replay has produced what the process has: no call was overlooked.
fn same_in_the_end(place: &Place, vfs: &SimVfs, copy: &Path) {
    let (mut real, mut replayed) = (BTreeMap::new(), BTreeMap::new());
    files(&place.root, Path::new("/"), &mut real);
    vfs.copy_out_to("/", copy).unwrap();
    files(copy, Path::new("/"), &mut replayed);
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&real), names(&replayed));
    for (name, bytes) in &real {
        assert!(
            replayed[name] == *bytes,
            "the content of {} differs",
            name.display()
        );
    }
}

impl Story {
    /// Crashes the machine, or only the process, at a point.
    fn crash(&self, case: &Case, point: &CrashPoint<'_>, loss: Loss) {
        let end = End::with(&loss);
        let image = point.crash(&loss);
        let moment = point.acknowledged();
        let recovered = recover(&image, &case.settings, &self.ledger, end, moment);
        let failed = |e: &dyn std::fmt::Display| -> ! {
            let ops = self.replayed.journal.ops();
            let from = point.index().saturating_sub(12);
            let tail = ops[from..point.index()]
                .iter()
                .map(|op| format!("\n  {op}"));
            let tail: String = tail.collect();
            panic!(
                "{}, crash {} {loss:?}: {e}\nafter{tail}",
                case.name,
                point.index()
            )
        };
        recovered.unwrap_or_else(|e| failed(&e));
        for (from, dir, expected) in &self.checkpoints {
            if point.index() < *from {
                continue;
            }
            let options = case.settings.options(&image);
            let copy = Db::open_read_only(dir, &options).unwrap_or_else(|e| failed(&e));
            let found = contents(&copy).unwrap_or_else(|e| failed(&e));
            if found != *expected {
                failed(&"the checkpoint has something else");
            }
        }
        if let Loss::None = loss {
            is_sound(&image, &case.settings).unwrap_or_else(|e| failed(&e));
        }
    }
}

/// Runs a case and crashes it. `feature` is one of the file system that the case is about, and a
/// call or a flag that shows that it was used.
fn keeps_its_promises(name: &str, feature: Option<(&str, &str)>) {
    if requirement::met("strace (Debian: strace)", strace::works()).is_none() {
        return;
    }
    let case = cases().into_iter().find(|case| case.name == name).unwrap();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // `strace` shows paths without symbolic links.
    let dir = dir.path().canonicalize().unwrap();
    std::fs::create_dir(Place::new(&dir).root).unwrap();
    let story = story(&case, &dir);
    same_in_the_end(&Place::new(&dir), &story.replayed.vfs, &dir.join("copy"));
    let all = std::env::var_os(ALL).is_some();
    let mut promised = 0;
    let mut crashes = 0;
    for point in story.replayed.journal.crash_points() {
        let index = point.index() as u64;
        let mut rng = fastrand::Rng::with_seed(mix(SEED, index));
        let durable = story.ledger.promised(End::Machine, point.acknowledged());
        let newly = durable > promised || index == 0;
        promised = promised.max(durable);
        let some = all || rng.u64(..EVERY) == 0;
        let losses = [
            (all || newly || rng.u64(..6) == 0, Loss::All),
            (some, Loss::None),
            (some || newly, Loss::Random(rng.u64(..))),
        ];
        for (_, loss) in losses.into_iter().filter(|(wanted, _)| *wanted) {
            story.crash(&case, &point, loss);
            crashes += 1;
        }
    }
    assert!(
        crashes > 50 && promised > 5,
        "{crashes} crashes, {promised} promises"
    );
    if let Some((needed, call)) = feature {
        let calls = story.replayed.calls.get(call).ok_or(format!("no {call}"));
        requirement::met(needed, calls);
    }
}

#[test]
fn buffered_files_keep_what_was_promised() {
    keeps_its_promises("buffered", None);
}

#[test]
fn files_written_with_direct_io_keep_what_was_promised() {
    keeps_its_promises("direct", Some(("direct I/O", "O_DIRECT")));
}

#[test]
fn files_with_holes_keep_what_was_promised() {
    keeps_its_promises("holes", Some(("a file system with holes", "fallocate")));
}

#[test]
fn unlogged_writes_are_kept_as_promised() {
    keeps_its_promises("unlogged", None);
}
