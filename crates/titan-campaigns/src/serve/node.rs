//! A node in another process, which is killed and started again at the same address.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use titan_testkit::failure::{CheckFailure, Checked, Doing};

/// The longest time in which a node starts or stops.
const PATIENCE: Duration = Duration::from_secs(60);

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

    /// Kills the process and starts another one. Returns when that serves.
    pub(super) fn kill_and_start(&self) -> Checked<()> {
        let mut running = self.running.lock();
        running.process.kill().doing("killing the node")?;
        running.process.wait().doing("waiting for the node")?;
        *running = start(&self.titan, &self.dir, self.has_cache, &running.address)?;
        Ok(())
    }

    /// Asks the process to end.
    pub(super) fn stop(&self) -> Checked<()> {
        let mut running = self.running.lock();
        let pid = running.process.id().to_string();
        let asked = Command::new("kill").arg(&pid).status();
        asked.doing("asking the node to end")?;
        let began = Instant::now();
        loop {
            match running.process.try_wait().doing("waiting for the node")? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.said(format!("the node ended with {status}"))),
                None if began.elapsed() > PATIENCE => {
                    return Err(self.said("the node does not end".to_owned()));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn said(&self, what: String) -> CheckFailure {
        said(&self.dir, what)
    }
}

impl Drop for ServedNode {
    fn drop(&mut self) {
        let process = &mut self.running.get_mut().process;
        // It may have ended.
        let _ = process.kill();
        let _ = process.wait();
    }
}

fn start(titan: &Path, dir: &Path, has_cache: bool, listen: &str) -> Checked<Running> {
    let port_file = dir.join("address");
    let _ = std::fs::remove_file(&port_file);
    let output = std::fs::File::create(dir.join("output")).doing("a file for output")?;
    let mut command = Command::new(titan);
    command.arg("serve").arg(dir.join("node"));
    command.args(["--listen", listen, "--no-sync", "--retention", "0"]);
    command.arg("--port-file").arg(&port_file);
    if has_cache {
        command.args(["--ime", "16"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut process = command.stderr(output).spawn().doing("starting the node")?;
    let began = Instant::now();
    loop {
        if let Ok(address) = std::fs::read_to_string(&port_file)
            && !address.is_empty()
        {
            return Ok(Running { process, address });
        }
        if let Some(status) = process.try_wait().doing("waiting for the node")? {
            return Err(said(dir, format!("the node did not start: {status}")));
        }
        if began.elapsed() > PATIENCE {
            let _ = process.kill();
            return Err(said(dir, "the node does not start".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn said(dir: &Path, what: String) -> CheckFailure {
    let output = std::fs::read_to_string(dir.join("output")).unwrap_or_default();
    CheckFailure::wrong(format!("{what}\n{output}"))
}
