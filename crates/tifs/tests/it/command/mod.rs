//! The built `tifs`, on volumes that are not mounted.
//!
//! | module | tests |
//! |---|---|
//! | `damage` | checks of damaged volumes |
//! | `directories` | directories that have something else than a volume |
//! | `output` | output that cannot be written |
//! | `streams` | dumps and loads that fail or are interrupted |

mod damage;
mod directories;
mod output;
mod streams;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use tifs::file_system::{Caller, FileSystem, WriteContext};
use tifs::kv::{EngineKv, EngineOptions, Kv};
use tifs::schema::InodeNumber;
use tifs::volume::{Volume, VolumeOptions};

/// The exit status of the command, and its output.
#[derive(Debug)]
pub struct Ended {
    status: Option<i32>,
    pub out: String,
    said: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Ended {
            status: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            said: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    /// It failed, with one line that has all of `parts`.
    #[track_caller]
    pub fn failed_with(&self, parts: &[&str]) {
        let is_complete = parts.iter().all(|part| self.said.contains(part));
        let is_line = self.said.lines().count() == 1;
        assert!(
            self.status == Some(1) && is_complete && is_line,
            "{parts:?}: {self:?}"
        );
    }

    /// It ended with a status, and its output has all of `parts`.
    #[track_caller]
    pub fn ended_with(&self, status: i32, parts: &[&str]) {
        let is_complete = parts.iter().all(|part| self.out.contains(part));
        let is_right = self.status == Some(status) && is_complete;
        assert!(is_right, "{parts:?}: {self:?}");
    }

    /// It succeeded.
    #[track_caller]
    pub fn succeeded(&self) {
        assert_eq!(self.status, Some(0), "{self:?}");
    }
}

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tifs"))
}

pub fn tifs<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ended {
    command().args(arguments).output().unwrap().into()
}

/// Small files that [`make`] makes.
const FILES: u64 = 2000;

/// Makes a volume with many small files and a large one, all of it in tables and blob files.
fn make(dir: &Path) {
    let mut options = EngineOptions::default();
    options.db.create_if_missing = true;
    let store = Arc::new(EngineKv::open(dir, &options).unwrap());
    Volume::make(&*store, &VolumeOptions::default()).unwrap();
    let volume = Volume::open(Arc::clone(&store) as _, VolumeOptions::default()).unwrap();
    let (caller, context) = (Caller { uid: 0, gid: 0 }, WriteContext::default());
    let write = |name: &str, content: &[u8]| {
        let made = volume.make_node(&caller, InodeNumber::ROOT, name.as_bytes(), 0o100644, 0, 0);
        volume
            .write(made.unwrap().number, 0, content, context)
            .unwrap();
    };
    for number in 0..FILES {
        write(&format!("file-{number}"), &[b'a'; 20]);
    }
    write("large", &vec![7; 1 << 20]);
    store.move_log().unwrap();
    volume.close().unwrap();
}

/// Names and contents of the files in a directory.
fn bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let named = entries.map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read(entry.path()).unwrap())
    });
    named.collect()
}
