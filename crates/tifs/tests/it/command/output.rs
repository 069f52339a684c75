//! Output that cannot be written.

use std::fs::File;
use std::process::{Command, Stdio};

use super::{Ended, command, make, tifs};

fn ended(command: &mut Command, out: impl Into<Stdio>) -> Ended {
    let child = command.stdout(out).stderr(Stdio::piped()).spawn();
    child.unwrap().wait_with_output().unwrap().into()
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_no_panic() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("volume");
    make(&dir);
    for arguments in [
        &["stats"][..],
        &["stats", "--json"],
        &["stats", "--prometheus"],
        &["fsck"],
        &["fsck", "--json"],
    ] {
        // Its reader has gone, and does not care.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let unread = ended(command().args(arguments).arg(&dir), writer);
        unread.succeeded();
        assert_eq!(unread.said, "");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let full = ended(command().args(arguments).arg(&dir), full);
        full.failed_with(&["standard output", "No space left"]);
    }
    // An incomplete dump is no success.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    ended(command().arg("dump").arg(&dir), writer).failed_with(&["Broken pipe"]);
}

#[test]
fn measuring_nothing_is_wrong_usage() {
    let home = tempfile::tempdir().unwrap();
    for option in ["--rounds", "--files", "--mebibytes"] {
        let ended = tifs(["bench", home.path().to_str().unwrap(), option, "0"]);
        assert_eq!(ended.status, Some(2), "{ended:?}");
    }
    let missing = home.path().join("missing");
    tifs(["bench", missing.to_str().unwrap()]).failed_with(&["missing", "No such file"]);
}
