//! Mounts of a volume on a node that speaks TiKV's protocol. The node is a process of its own, so
//! that it can be killed.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tifs::kv::{RemoteUrl, connect_to_ask};
use titan_server::{Node, NodeOptions};
use titan_testkit::requirement;
use titan_testkit::setup::eventually;

use super::tifs;
use crate::places::{Volume, enter, start};

/// Names the directory of a node, and its port, to the process that serves it.
const DIRECTORY: &str = "TIFS_TEST_NODE";
const PORT: &str = "TIFS_TEST_NODE_PORT";

/// A process that serves a node.
struct NodeProcess {
    dir: TempDir,
    port: u16,
    process: Child,
}

impl NodeProcess {
    fn start() -> NodeProcess {
        let dir = tempfile::tempdir().unwrap();
        // Below those that the system gives out, so that it is free when the node starts again.
        let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let mut ports = std::iter::repeat_with(|| fastrand::u16(10_000..30_000));
        let port = ports.find(is_free).unwrap();
        let process = serve(dir.path(), port);
        wait_for(dir.path());
        NodeProcess { dir, port, process }
    }

    fn url(&self, parameters: &str) -> String {
        format!("tikv://127.0.0.1:{}/files{parameters}", self.port)
    }

    /// Kills it, as `kill -9` does, and starts it again at the same address.
    fn kill_and_restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        fs::remove_file(port_file(self.dir.path())).unwrap();
        self.process = serve(self.dir.path(), self.port);
        wait_for(self.dir.path());
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn port_file(dir: &Path) -> PathBuf {
    dir.join("port")
}

fn serve(dir: &Path, port: u16) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "failures::cluster::the_node_of_the_other_tests"])
        .env(DIRECTORY, dir)
        .env(PORT, port.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    start(&mut command)
}

/// Waits until a node has started.
fn wait_for(dir: &Path) {
    let file = port_file(dir);
    eventually("the node is ready", || file.exists());
}

/// Serves a node until its parent ends, if it is started for that; or else does nothing.
#[test]
fn the_node_of_the_other_tests() {
    let Some(dir) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let port: u16 = std::env::var(PORT).unwrap().parse().unwrap();
    let mut options = NodeOptions::new(([127, 0, 0, 1], port).into());
    options.port_file = Some(port_file(&dir));
    let node = Node::start(dir.join("node"), &options).unwrap();
    let _ = std::io::stdin().read(&mut [0]);
    node.stop().unwrap();
}

/// A new volume on a new node, mounted in a namespace of the test. Where this machine cannot, the
/// test says so and passes.
fn with(parameters: &str, test: impl FnOnce(&mut NodeProcess, &mut Volume)) {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    if !enter() || requirement::met("mounts: /dev/fuse", device).is_none() {
        return;
    }
    let mut node = NodeProcess::start();
    let url = node.url(parameters);
    let made = tifs(["mkfs", &url]);
    assert_eq!(made.status, 0, "{made:?}");
    let mut volume = Volume::of(&url);
    test(&mut node, &mut volume);
}

fn write_durably(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[test]
fn what_was_synced_survives_kills_of_the_mount_and_of_the_node() {
    with("?lease=1h", |node, volume| {
        let large = vec![7; 3 << 20];
        write_durably(&volume.join("large"), &large).unwrap();
        fs::create_dir(volume.join("directory")).unwrap();
        write_durably(&volume.join("directory/small"), b"small").unwrap();
        let _unsynced = fs::write(volume.join("unsynced"), b"maybe");
        let other = volume.home().join("other");
        fs::create_dir(&other).unwrap();
        let process = format!("in use by process {} of ", volume.process());
        let (url, other) = (node.url(""), other.to_str().unwrap());
        tifs(["mount", &url, other]).failed_with(&[&process, "unmount it"]);
        volume.kill_and_leave_mounted();
        // Nobody serves it, so there is nothing to sync before.
        let dump = volume.home().join("dump");
        let dumped = tifs(["dump", &url, dump.to_str().unwrap()]);
        assert_eq!(dumped.status, 0, "{dumped:?}");
        volume.detach();
        // Its process has ended, so its lease does not matter.
        volume.mount();
        assert_eq!(fs::read(volume.join("large")).unwrap(), large);
        assert_eq!(fs::read(volume.join("directory/small")).unwrap(), b"small");
        node.kill_and_restart();
        eventually("the mount goes on", || {
            write_durably(&volume.join("after"), b"after").is_ok()
        });
        fs::rename(volume.join("large"), volume.join("directory/large")).unwrap();
        volume.unmount();
        volume.check();
        volume.mount();
        assert_eq!(fs::read(volume.join("after")).unwrap(), b"after");
        assert_eq!(fs::read(volume.join("directory/large")).unwrap(), large);
    });
}

/// Large writes commit in two phases, of which a kill may leave the first.
#[test]
fn a_mount_that_was_killed_within_commits_leaves_no_lock_that_lasts() {
    with("?lease=1h", |_, volume| {
        for round in 0..3 {
            let file = volume.join(format!("f{round}"));
            let begun = std::thread::spawn(move || {
                let Ok(mut file) = File::create(&file) else {
                    return;
                };
                while file.write_all(&[7; 1 << 20]).is_ok() && file.sync_all().is_ok() {}
            });
            let file = volume.join(format!("f{round}"));
            let length = || fs::metadata(&file).map_or(0, |of| of.len());
            eventually("some content is written", || length() >= 2 << 20);
            volume.kill();
            begun.join().unwrap();
            volume.mount();
            fs::remove_file(&file).unwrap();
        }
        volume.unmount();
        volume.check();
    });
}

#[test]
fn commands_end_in_time_and_leave_a_stopped_mount_its_volume() {
    with("?lease=1s&timeout=3s", |node, volume| {
        write_durably(&volume.join("f"), b"first").unwrap();
        let url = node.url("?timeout=3s");
        let ask = connect_to_ask(&RemoteUrl::parse(&url).unwrap()).unwrap();
        let stopped = Pid::from_raw(volume.process().cast_signed()).unwrap();
        kill_process(stopped, Signal::STOP).unwrap();
        eventually("the lease ends", || ask().unwrap().is_none());
        let checked = tifs(["fsck", &url]);
        let says = "does not answer: the last writes of its programs";
        assert!(
            checked.status == 0 && checked.said.contains(says),
            "{checked:?}"
        );
        tifs(["mkfs", &url]).failed_with(&["has a volume files already"]);
        kill_process(stopped, Signal::CONT).unwrap();
        write_durably(&volume.join("g"), b"second").unwrap();
        volume.unmount();
        volume.check();
    });
}

#[test]
fn a_mount_that_was_stopped_past_its_lease_never_writes_again() {
    with("?lease=1s", |node, first| {
        write_durably(&first.join("f"), b"first").unwrap();
        let (url, other) = (node.url("?lease=1h"), first.home().join("other"));
        fs::create_dir(&other).unwrap();
        let log = format!("log={}/other.log", first.home().display());
        let mount = ["mount", &url, other.to_str().unwrap(), "-o", &log];
        let stopped = Pid::from_raw(first.process().cast_signed()).unwrap();
        kill_process(stopped, Signal::STOP).unwrap();
        eventually("the lease ends", || tifs(mount).status == 0);
        write_durably(&other.join("f"), b"second").unwrap();
        kill_process(stopped, Signal::CONT).unwrap();
        let refused = write_durably(&first.join("f"), b"too late").unwrap_err();
        assert_ne!(refused.kind(), ErrorKind::NotFound, "{refused}");
        eventually("the log says why", || first.log().contains("taken over by"));
        assert_eq!(fs::read(other.join("f")).unwrap(), b"second");
        let unmounted = tifs(["umount", other.to_str().unwrap()]);
        assert_eq!(unmounted.status, 0, "{unmounted:?}");
        first.kill();
        first.check();
    });
}
