//! Another engine in its own process. It receives commands as lines and answers each with one
//! line.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::failure::{CheckFailure, Checked, Doing};

/// The engine, running. It is killed when this is dropped.
pub struct Peer {
    /// Of the engine, for errors.
    name: &'static str,
    process: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the process. Its standard error is shown.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(name: &'static str, mut program: Command) -> Checked<Peer> {
        let mut process = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .doing(program.get_program().display())?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let pipes = input.zip(output);
        let pipes =
            pipes.ok_or_else(|| CheckFailure::wrong(format!("{name}'s process has no pipes")))?;
        Ok(Peer {
            name,
            process,
            input: BufWriter::new(pipes.0),
            output: BufReader::new(pipes.1),
        })
    }

    /// Sends a line; the engine works on it in the meantime.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn send(&mut self, line: &str) -> Checked<()> {
        let sent = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        sent.doing(format_args!("{}'s process", self.name))
    }

    /// The answer to the line sent.
    ///
    /// # Errors
    /// If the process ends without one.
    pub fn receive(&mut self) -> Checked<String> {
        let mut answer = String::new();
        let read = self.output.read_line(&mut answer);
        read.doing(format_args!("{}'s process", self.name))?;
        match answer.pop() {
            Some('\n') => Ok(answer),
            _ => Err(CheckFailure::wrong(format!(
                "{}'s process ended: {:?}",
                self.name,
                self.process.wait()
            ))),
        }
    }

    /// Sends a line whose answer must be `ok`.
    ///
    /// # Errors
    /// Any other answer; those of [`Peer::receive`].
    pub fn ask(&mut self, line: &str) -> Checked<()> {
        self.send(line)?;
        match self.receive()?.as_str() {
            "ok" => Ok(()),
            answer => Err(CheckFailure::wrong(format!("{}: {answer}", self.name))),
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
