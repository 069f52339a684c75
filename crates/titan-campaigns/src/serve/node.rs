//! A node in another process, which is killed and started again at the same address.
//!
//! A process that ends by itself is a finding, and so is a panic of any of its threads: clients
//! take both for a broken connection.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use titan_testkit::failure::{CheckFailure, Checked, Doing};

/// The longest time in which a node starts or stops.
const PATIENCE: Duration = Duration::from_secs(60);
/// The signal that kills.
const KILL: i32 = 9;
/// The words of each panic in the output.
const PANIC: &str = "panicked at";

/// `titan serve`.
pub(super) struct ServedNode {
    titan: PathBuf,
    dir: PathBuf,
    has_cache: bool,
    running: Mutex<Running>,
}

struct Running {
    process: Child,
    address: String,
    /// The file with its standard error.
    output: PathBuf,
}

impl ServedNode {
    /// Starts a node with its files in the directory `dir`.
    pub(super) fn start(titan: &Path, dir: &Path, has_cache: bool) -> Checked<ServedNode> {
        let running = start(titan, dir, has_cache, "127.0.0.1:0")?;
        Ok(ServedNode {
            titan: titan.to_owned(),
            dir: dir.to_owned(),
            has_cache,
            running: Mutex::new(running),
        })
    }

    pub(super) fn address(&self) -> String {
        self.running.lock().address.clone()
    }

    /// Fails unless the process runs and none of its threads has panicked.
    pub(super) fn check(&self) -> Checked<()> {
        self.running.lock().check()
    }

    /// Kills the process and starts another one. Returns when that serves.
    pub(super) fn kill_and_start(&self) -> Checked<()> {
        let mut running = self.running.lock();
        running.kill()?;
        *running = start(&self.titan, &self.dir, self.has_cache, &running.address)?;
        Ok(())
    }

    /// Asks the process to end.
    pub(super) fn stop(&self) -> Checked<()> {
        let mut running = self.running.lock();
        running.check()?;
        let pid = running.process.id().to_string();
        let asked = Command::new("kill").arg(&pid).status();
        asked.doing("asking the node to end")?;
        let began = Instant::now();
        loop {
            match running.ended()? {
                Some(status) if status.success() => return running.check_output(),
                Some(status) => return Err(running.said(format!("the node ended with {status}"))),
                None if began.elapsed() > PATIENCE => {
                    return Err(running.said("the node does not end".to_owned()));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Running {
    fn ended(&mut self) -> Checked<Option<ExitStatus>> {
        self.process.try_wait().doing("waiting for the node")
    }

    fn check(&mut self) -> Checked<()> {
        match self.ended()? {
            Some(status) => Err(self.said(format!("the node has ended by itself: {status}"))),
            None => self.check_output(),
        }
    }

    fn check_output(&self) -> Checked<()> {
        match output(&self.output).contains(PANIC) {
            true => Err(self.said("the node has panicked".to_owned())),
            false => Ok(()),
        }
    }

    /// Kills the process, which must have run until then.
    fn kill(&mut self) -> Checked<()> {
        self.check()?;
        self.process.kill().doing("killing the node")?;
        let status = self.process.wait().doing("waiting for the node")?;
        if status.signal() != Some(KILL) {
            return Err(self.said(format!("the node has ended by itself: {status}")));
        }
        self.check_output()
    }

    fn said(&self, what: String) -> CheckFailure {
        said(&self.output, what)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(titan: &Path, dir: &Path, has_cache: bool, listen: &str) -> Checked<Running> {
    let port_file = dir.join("address");
    let _ = std::fs::remove_file(&port_file);
    let mut command = Command::new(titan);
    command.arg("serve").arg(dir.join("node"));
    command.args(["--listen", listen, "--no-sync", "--retention", "0"]);
    command.arg("--port-file").arg(&port_file);
    if has_cache {
        command.args(["--ime", "16"]);
    }
    let mut running = run(command, dir.join("output"))?;
    let began = Instant::now();
    loop {
        if let Ok(address) = std::fs::read_to_string(&port_file)
            && !address.is_empty()
        {
            running.address = address;
            return Ok(running);
        }
        if let Some(status) = running.ended()? {
            return Err(running.said(format!("the node did not start: {status}")));
        }
        if began.elapsed() > PATIENCE {
            return Err(running.said("the node does not start".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a command whose address is not known yet.
fn run(mut command: Command, output: PathBuf) -> Checked<Running> {
    let file = std::fs::File::create(&output).doing("a file for output")?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let process = command.stderr(file).spawn().doing("starting the node")?;
    Ok(Running {
        process,
        address: String::new(),
        output,
    })
}

fn output(file: &Path) -> String {
    let bytes = std::fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn said(file: &Path, what: String) -> CheckFailure {
    CheckFailure::wrong(format!("{what}\n{}", output(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process of a shell.
    fn shell(dir: &Path, script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, dir.join("output")).unwrap()
    }

    #[test]
    fn an_end_by_itself_and_a_panic_are_findings_and_a_kill_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut well = shell(dir.path(), "exec sleep 600");
        well.check().unwrap();
        well.kill().unwrap();
        let mut ended = shell(dir.path(), "echo torn >&2; exit 3");
        ended.process.wait().unwrap();
        let finding = ended.kill().unwrap_err().to_string();
        assert!(
            finding.contains("by itself") && finding.contains("torn"),
            "{finding}"
        );
        let panicking = "echo \"thread 'x' panicked at y\" >&2; exec sleep 600";
        let mut panicked = shell(dir.path(), panicking);
        while panicked.check().is_ok() {
            std::thread::yield_now();
        }
        let finding = panicked.kill().unwrap_err().to_string();
        assert!(finding.contains("panicked at y"), "{finding}");
    }
}
