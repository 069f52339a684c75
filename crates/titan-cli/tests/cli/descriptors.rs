//! Commands with fewer file descriptors than the database has files.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

use titan::{ColumnFamilyOptions, Db, Options, Stated};

use crate::Place;

const FILES: usize = 400;
const DESCRIPTORS: usize = 64;

/// Runs the command with so few descriptors that it cannot have more.
fn run_limited<S: AsRef<OsStr>>(place: &Place, args: &[S]) -> Output {
    Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_titan"))
        .args(args)
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Neighbouring keys are in different blob files.
fn many_files(place: &Place) -> Db {
    let options = Options {
        default: ColumnFamilyOptions {
            min_blob_size: 100,
            disable_auto_compactions: true,
            enable_blob_garbage_collection: false,
            stated: Stated::all(),
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    let db = Db::open(place.path("db"), &options).unwrap();
    for file in 0..FILES {
        for n in 0..3 {
            let key = format!("{:06}", n * FILES + file);
            db.put(key.as_bytes(), &[b'v'; 300]).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range(None, None, &Default::default()).unwrap();
    db
}

#[test]
fn a_closed_database_can_be_read_and_repaired() {
    let place = Place::new();
    many_files(&place).close().unwrap();
    for (command, expected) in [
        (&["scan", "db"][..], "001199 : vvv"),
        (&["scan", "db", "--reverse"], "000000 : vvv"),
        (&["stats", "db"], "open files"),
        (&["space", "db"], "Column family default"),
        (&["check", "db"], "no damage found"),
        (&["dump", "db", "restored"], ""),
        (&["repair", "db", "--into", "repaired"], ""),
        (&["scan", "repaired"], "001199 : vvv"),
    ] {
        let output = run_limited(&place, command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(out.contains(expected), "{command:?}: {out}");
    }
    let restored = std::fs::read_dir(place.path("restored")).unwrap().count();
    assert_eq!(restored, 3 * FILES);
}

/// Beside a writer every file must stay open, which is said before one is read.
#[test]
fn beside_a_writer_it_is_said_how_many_descriptors_are_missing() {
    let place = Place::new();
    let db = many_files(&place);
    let output = run_limited(&place, &["scan", "db"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{said}"
    );
    let needed = format!("its {} files", FILES + 1);
    assert!(said.contains(&needed), "{said}");
    assert!(
        said.contains(&format!("may have {DESCRIPTORS} open")),
        "{said}"
    );
    assert!(said.contains("ulimit -n"), "{said}");
    // The soft limit is raised to the hard one, so that alone does not matter.
    let raised = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -Sn {DESCRIPTORS} && exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_titan"))
        .args(["scan", "db", "--keys-only"])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    assert!(raised.status.success(), "{raised:?}");
    assert_eq!(
        raised.stdout.iter().filter(|b| **b == b'\n').count(),
        3 * FILES
    );
    db.close().unwrap();
}
