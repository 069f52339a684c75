//! The process that is recorded: it runs a workload on the real file system.
//!
//! It writes a line to the file of marks after each operation has returned, and after each closing
//! of the database.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use titan::Options;
use titan::vfs::StdVfs;
use titan_campaigns::session::Session;
use titan_campaigns::store;
use titan_testkit::apply::{Logging, Manner};
use titan_testkit::ops::Op;
use titan_testkit::sim::SimVfs;

use super::{Case, cases, strace};

/// The directory in which the recorded process works.
const PLACE: &str = "TITAN_REAL_FS_PLACE";
/// The name of its case.
const CASE: &str = "TITAN_REAL_FS_CASE";

/// The paths of one run.
pub struct Place {
    pub root: PathBuf,
    pub marks: PathBuf,
    pub trace: PathBuf,
}

impl Place {
    pub fn new(dir: &Path) -> Place {
        Place {
            root: dir.join("root"),
            marks: dir.join("marks"),
            trace: dir.join("trace"),
        }
    }

    /// The real path of one in the simulated file system.
    pub fn real(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path.as_ref().strip_prefix("/").unwrap())
    }
}

/// The directory of the checkpoint that operation `n` makes, in the simulated file system.
pub fn checkpoint(n: usize) -> PathBuf {
    PathBuf::from(format!("/data/checkpoint-{n}"))
}

/// Runs a case in a recorded process.
pub fn run(case: &Case, dir: &Path) {
    let place = Place::new(dir);
    let this = std::env::current_exe().unwrap();
    let mut command: Command = strace::traced(&this, &place.trace);
    command.args([
        "--exact",
        "--ignored",
        "real_fs::worker::the_recorded_process",
    ]);
    command.env(PLACE, dir).env(CASE, case.name);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{}: {said}",
        case.name
    );
}

/// The options of a case on the real file system.
fn options(case: &Case) -> Options {
    let mut options = case.settings.options(&SimVfs::new());
    options.db.vfs = Arc::new(StdVfs);
    options.db.use_direct_io_for_flush_and_compaction = case.direct;
    options
}

#[test]
#[ignore = "the other tests here start it in a process of its own"]
fn the_recorded_process() {
    let dir = std::env::var_os(PLACE).expect("only the other tests start this");
    let name = std::env::var(CASE).unwrap();
    let case = cases().into_iter().find(|case| case.name == name).unwrap();
    let place = Place::new(Path::new(&dir));
    let mut marks = File::create(&place.marks).unwrap();
    let mut mark = || marks.write_all(b".\n").unwrap();

    let db = place.real(store::DIR);
    let logging = match case.settings.unlogged {
        true => Logging::Unlogged,
        false => Logging::AsAsked,
    };
    let manner = Manner {
        logging,
        thorough: true,
        ..Manner::default()
    };
    let open = || Session::open(&db, options(&case), manner).unwrap_or_else(|e| panic!("{e}"));
    let mut session = open();
    for (n, op) in case.ops.iter().enumerate() {
        match op {
            Op::Reopen => {
                session.end(true).unwrap_or_else(|e| panic!("{e}"));
                mark();
                session = open();
                continue;
            }
            Op::Checkpoint => {
                let copy = place.real(checkpoint(n));
                session.db().checkpoint(copy).unwrap();
            }
            op => {
                session.apply(op).unwrap_or_else(|e| panic!("{op}: {e}"));
            }
        }
        mark();
        if case.settings.settled {
            session.db().wait_idle().unwrap();
        }
    }
    session.end(true).unwrap_or_else(|e| panic!("{e}"));
    mark();
}
