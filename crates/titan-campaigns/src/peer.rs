//! Another engine in its own process. It receives commands as lines and answers each with one
//! line.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use titan_testkit::failure::{CheckFailure, Checked, Doing};

/// RocksDB, running. It is killed when this is dropped.
pub(crate) struct Peer {
    process: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the process. Its standard error is shown.
    pub(crate) fn start(mut program: Command) -> Checked<Peer> {
        let mut process = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .doing(program.get_program().display())?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let pipes = input.zip(output);
        let pipes = pipes.ok_or_else(|| CheckFailure::wrong("RocksDB's process has no pipes"))?;
        Ok(Peer {
            process,
            input: BufWriter::new(pipes.0),
            output: BufReader::new(pipes.1),
        })
    }

    /// Sends a line; RocksDB works on it in the meantime.
    pub(crate) fn send(&mut self, line: &str) -> Checked<()> {
        let sent = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        sent.doing("RocksDB's process")
    }

    /// The answer to the line sent.
    pub(crate) fn receive(&mut self) -> Checked<String> {
        let mut answer = String::new();
        let read = self.output.read_line(&mut answer);
        read.doing("RocksDB's process")?;
        match answer.pop() {
            Some('\n') => Ok(answer),
            _ => Err(CheckFailure::wrong(format!(
                "RocksDB's process ended: {:?}",
                self.process.wait()
            ))),
        }
    }

    /// Sends a line whose answer must be `ok`.
    pub(crate) fn ask(&mut self, line: &str) -> Checked<()> {
        self.send(line)?;
        match self.receive()?.as_str() {
            "ok" => Ok(()),
            answer => Err(CheckFailure::wrong(format!("RocksDB: {answer}"))),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may be in the middle of a command, or have ended: nothing is lost either way.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
