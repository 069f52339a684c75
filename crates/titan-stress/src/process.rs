//! One life from the outside.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::event::Event;

/// One life of the stressed process. Dropping it kills the process.
pub(crate) struct Life {
    child: Child,
    stdin: Option<ChildStdin>,
    events: Receiver<Event>,
    reader: Option<JoinHandle<()>>,
}

/// The result of waiting for an event.
pub(crate) enum Heard {
    Event(Event),
    Nothing,
    /// The process has ended, and all its events were received.
    End,
}

impl Life {
    /// Starts the process. Its events are appended to `record`, its standard error to
    /// `complaints`.
    pub(crate) fn start(
        mut command: Command,
        record: &Path,
        complaints: &Path,
    ) -> std::io::Result<Self> {
        let append = |path| OpenOptions::new().create(true).append(true).open(path);
        let record = append(record)?;
        let mut child = command
            // So that an interruption from the terminal reaches only the campaign.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(append(complaints)?)
            .spawn()?;
        let (sender, events) = channel();
        let stdout = child.stdout.take();
        let reader = std::thread::spawn(move || {
            if let Some(stdout) = stdout {
                listen(stdout, record, &sender);
            }
        });
        Ok(Life {
            stdin: child.stdin.take(),
            child,
            events,
            reader: Some(reader),
        })
    }

    /// Sends a line to the process. If the process has ended, the line is lost.
    pub(crate) fn say(&mut self, what: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(format!("{what}\n").as_bytes());
        }
    }

    /// Waits for an event.
    pub(crate) fn hear(&self, at_most: Duration) -> Heard {
        match self.events.recv_timeout(at_most) {
            Ok(event) => Heard::Event(event),
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }

    /// Ends the process as `kill -9` does, if it has not ended by itself. Its events can
    /// still be received.
    pub(crate) fn kill(&mut self) -> std::io::Result<()> {
        // It fails for a process that has ended.
        let _ = self.child.kill();
        let status = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        status.map(drop)
    }

    /// Waits for the process to end by itself.
    pub(crate) fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn listen(stdout: ChildStdout, record: File, events: &Sender<Event>) {
    let mut stdout = BufReader::new(stdout);
    let mut record = BufWriter::new(record);
    let mut line = String::new();
    while let Ok(1..) = stdout.read_line(&mut line) {
        // A truncated line does not count: the operation it announces has not begun.
        let Some(whole) = line.strip_suffix('\n') else {
            break;
        };
        let unreadable = || Event::Violation(format!("it said: {whole}"));
        let event = Event::parse(whole).unwrap_or_else(unreadable);
        let _ = record.write_all(line.as_bytes());
        if events.send(event).is_err() {
            break;
        }
        line.clear();
    }
}
