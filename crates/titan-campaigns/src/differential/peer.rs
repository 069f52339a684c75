//! RocksDB in a process of its own: `peer/rocksdb_peer.cc`, compiled when it is first needed.

use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::trouble::{Checked, Doing, Trouble};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peer/rocksdb_peer.cc");

/// The program, compiled.
#[derive(Clone, Debug)]
pub struct Program(PathBuf);

impl Program {
    /// Compiles the program into `dir`, unless it is there and as new as its source.
    ///
    /// # Errors
    /// What is missing and how to install it; or what the compiler says.
    pub fn compile(dir: &Path) -> Checked<Program> {
        let program = dir.join("rocksdb_peer");
        let modified = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
        let source = Path::new(SOURCE);
        if modified(&program).is_some_and(|compiled| Some(compiled) >= modified(source)) {
            return Ok(Program(program));
        }
        fs::create_dir_all(dir).doing(dir.display())?;
        // Under another name first: others may be compiling it too.
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
                true => Trouble::wrong(
                    "RocksDB's library and headers are missing; on Debian: \
                     apt-get install librocksdb-dev",
                ),
                false => Trouble::wrong(errors),
            });
        }
        fs::rename(&mine, &program).doing(program.display())?;
        Ok(Program(program))
    }
}

/// RocksDB, running. It ends when this is dropped.
pub(super) struct Peer {
    process: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    pub(super) fn start(program: &Program) -> Checked<Peer> {
        let mut process = Command::new(&program.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .doing(program.0.display())?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let pipes = input.zip(output);
        let pipes = pipes.ok_or_else(|| Trouble::wrong("RocksDB's process has no pipes"))?;
        Ok(Peer {
            process,
            input: BufWriter::new(pipes.0),
            output: BufReader::new(pipes.1),
        })
    }

    /// Sends a line; RocksDB works on it meanwhile.
    pub(super) fn send(&mut self, line: &str) -> Checked<()> {
        let sent = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        sent.doing("RocksDB's process")
    }

    /// The answer to the line sent.
    pub(super) fn receive(&mut self) -> Checked<String> {
        let mut answer = String::new();
        let read = self.output.read_line(&mut answer);
        read.doing("RocksDB's process")?;
        match answer.pop() {
            Some('\n') => Ok(answer),
            _ => Err(Trouble::wrong(format!(
                "RocksDB's process ended: {:?}",
                self.process.wait()
            ))),
        }
    }

    /// Sends a line that must be answered `ok`.
    pub(super) fn ask(&mut self, line: &str) -> Checked<()> {
        self.send(line)?;
        match self.receive()?.as_str() {
            "ok" => Ok(()),
            answer => Err(Trouble::wrong(format!("RocksDB: {answer}"))),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may be in the middle of something, or have ended: nothing is lost either way.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
