//! Dumps and loads that fail or are interrupted.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Ended, command, make, tifs};

/// A directory with a volume and its dump.
struct Place {
    home: tempfile::TempDir,
    dump: Vec<u8>,
}

impl Place {
    fn new() -> Place {
        let home = tempfile::tempdir().unwrap();
        make(&home.path().join("volume"));
        let mut place = Place {
            home,
            dump: Vec::new(),
        };
        tifs(["dump", &place.text("volume"), &place.text("dump")]).succeeded();
        place.dump = fs::read(place.path("dump")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The names in the directory.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// A load that has begun, and waits for the rest of its input.
    fn begin_load(&self, dir: &str) -> Child {
        let mut load = command()
            .args(["load", &self.text(dir)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // More than a pipe takes: when it is written, the load has read some of it.
        let input = load.stdin.as_mut().unwrap();
        input.write_all(&self.dump[..self.dump.len() / 2]).unwrap();
        load
    }
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn a_dump_is_for_its_owner_alone() {
    let place = Place::new();
    let mode = place.path("dump").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_load_that_fails_leaves_nothing() {
    let place = Place::new();
    let (cut, more) = (
        &place.dump[..place.dump.len() - 1],
        [&place.dump[..], b"x"].concat(),
    );
    let mut damaged = place.dump.clone();
    damaged[place.dump.len() / 2] ^= 1;
    fs::create_dir(place.path("empty")).unwrap();
    for (input, why) in [
        (cut, "cut short"),
        (&more, "more bytes follow"),
        (&damaged, "damaged"),
        (b"no such thing", "no dump"),
    ] {
        fs::write(place.path("input"), input).unwrap();
        let load = |dir: &str| tifs(["load", &place.text(dir), &place.text("input")]);
        load("new/volume").failed_with(&[why]);
        assert!(!place.path("new").exists(), "{why}");
        load("empty").failed_with(&[why]);
        assert!(is_empty(&place.path("empty")), "{why}");
    }
    tifs(["load", &place.text("new"), &place.text("none")]).failed_with(&["none"]);
    assert!(!place.path("new").exists());
    fs::write(place.path("input"), &place.dump).unwrap();
    tifs(["load", &place.text("empty"), &place.text("input")]).succeeded();
    tifs(["fsck", &place.text("empty")]).succeeded();
}

#[test]
fn an_interrupted_load_leaves_nothing() {
    let place = Place::new();
    let load = place.begin_load("new/volume");
    let process = format!("process {}", load.id());
    for command in ["fsck", "mkfs"] {
        let used = tifs([command, &place.text("new/volume")]);
        used.failed_with(&["is being made", &process]);
    }
    kill_process(Pid::from_child(&load), Signal::INT).unwrap();
    // Its input does not end.
    let mut load = load;
    let input = load.stdin.take();
    Ended::from(load.wait_with_output().unwrap()).failed_with(&["interrupted"]);
    drop(input);
    assert_eq!(place.names(), ["dump", "volume"]);
}

#[test]
fn what_a_killed_load_leaves_is_named_so() {
    let place = Place::new();
    let mut load = place.begin_load("new");
    load.kill().unwrap();
    load.wait().unwrap();
    for arguments in [
        &["fsck", &place.text("new")][..],
        &["stats", &place.text("new")],
        &["mkfs", &place.text("new")],
        &["load", &place.text("new"), &place.text("dump")],
    ] {
        tifs(arguments).failed_with(&["an unfinished volume", "remove it", "repeat"]);
    }
    fs::remove_dir_all(place.path("new")).unwrap();
    tifs(["load", &place.text("new"), &place.text("dump")]).succeeded();
    tifs(["fsck", &place.text("new")]).succeeded();
}

#[test]
fn a_dump_that_fails_leaves_no_file() {
    let place = Place::new();
    let tables = fs::read_dir(place.path("volume")).unwrap();
    let tables = tables.map(|entry| entry.unwrap().path());
    let tables = tables.filter(|path| path.extension().is_some_and(|found| found == "sst"));
    let table = tables
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let mut content = fs::read(&table).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(&table, content).unwrap();
    let failed = tifs(["dump", &place.text("volume"), &place.text("new")]);
    failed.failed_with(&["cannot dump", "corruption"]);
    assert_eq!(place.names(), ["dump", "volume"]);
}

#[test]
fn a_dump_replaces_no_file_and_can_go_to_a_device() {
    let place = Place::new();
    let dump = |to: &str| tifs(["dump", &place.text("volume"), to]);
    dump(&place.text("dump")).failed_with(&["dump exists"]);
    dump("/dev/null").succeeded();
    dump("/dev/full").failed_with(&["No space left"]);
    let out = File::create(place.path("out")).unwrap();
    let mut command = command();
    command
        .args(["dump", &place.text("volume"), "-"])
        .stdout(out);
    assert!(command.status().unwrap().success());
    assert_eq!(fs::read(place.path("out")).unwrap(), place.dump);
    let input = File::open(place.path("out")).unwrap();
    let mut command = super::command();
    command
        .args(["load", &place.text("copy"), "-"])
        .stdin(input);
    assert!(command.status().unwrap().success());
}
