//! Another engine in a process of its own, told what to do by lines and answering each by one.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::trouble::{Checked, Doing, Trouble};

/// RocksDB, running. It is killed when this is dropped.
pub(crate) struct Peer {
    process: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the process. What it writes to standard error is shown.
    pub(crate) fn start(mut program: Command) -> Checked<Peer> {
        let mut process = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .doing(program.get_program().display())?;
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
            _ => Err(Trouble::wrong(format!(
                "RocksDB's process ended: {:?}",
                self.process.wait()
            ))),
        }
    }

    /// Sends a line that must be answered `ok`.
    pub(crate) fn ask(&mut self, line: &str) -> Checked<()> {
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
