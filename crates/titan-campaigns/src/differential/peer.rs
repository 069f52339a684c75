//! The program that runs RocksDB: `peer/rocksdb_peer.cc`, compiled when it is first
//! needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::peer::Peer;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peer/rocksdb_peer.cc");

/// The compiled program.
#[derive(Clone, Debug)]
pub struct Program(PathBuf);

impl Program {
    /// Compiles the program into `dir`, unless it exists there and is as new as its
    /// source.
    ///
    /// # Errors
    /// The programs that are missing and how to install them; or the compiler's errors.
    pub fn compile(dir: &Path) -> Checked<Program> {
        let program = dir.join("rocksdb_peer");
        let modified = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
        let source = Path::new(SOURCE);
        if modified(&program).is_some_and(|compiled| Some(compiled) >= modified(source)) {
            return Ok(Program(program));
        }
        fs::create_dir_all(dir).doing(dir.display())?;
        // Under another name first: other processes may be compiling it too.
        let mine = dir.join(format!("rocksdb_peer.{}", std::process::id()));
        let compiled = Command::new("g++")
            .args([
                "-std=c++17",
                "-O2",
                "-Wall",
                "-Wextra",
                "-Werror",
                SOURCE,
                "-o",
            ])
            .args([mine.as_os_str(), "-lrocksdb".as_ref()])
            .output()
            .doing("g++ cannot be run; on Debian: apt-get install g++")?;
        if !compiled.status.success() {
            let errors = String::from_utf8_lossy(&compiled.stderr);
            let missing = errors.contains("rocksdb/") && errors.contains("No such file");
            return Err(match missing || errors.contains("cannot find -lrocksdb") {
                true => CheckFailure::wrong(
                    "RocksDB's library and headers are missing; on Debian: \
                     apt-get install librocksdb-dev",
                ),
                false => CheckFailure::wrong(errors),
            });
        }
        fs::rename(&mine, &program).doing(program.display())?;
        Ok(Program(program))
    }

    pub(super) fn start(&self) -> Checked<Peer> {
        Peer::start("RocksDB", Command::new(&self.0))
    }
}
