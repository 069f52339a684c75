//! `tifs umount` while other namespaces have the mount.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::places::{self, TIFS, Volume, run, start};

#[test]
fn a_mount_in_another_namespace_is_named_and_not_waited_for() {
    if !places::enter() {
        return;
    }
    let Some(mut volume) = Volume::new() else {
        return;
    };
    std::fs::write(volume.path().join("file"), "content").unwrap();
    // A process whose namespace has a copy of the mount, until its input ends.
    let mut other = start(
        Command::new("unshare")
            .args(["--mount", "sh", "-c", "echo ready; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut ready = String::new();
    BufReader::new(other.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    assert_eq!(ready, "ready\n");

    let output = run(Command::new(TIFS).arg("umount").arg(volume.path()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains(&format!("process {} (cat)", other.id())),
        "{said}"
    );
    assert!(!volume.path().join("file").exists());

    drop(other.stdin.take());
    other.wait().unwrap();
    volume.wait();
    volume.check();
    volume.mount();
    let content = std::fs::read(volume.path().join("file")).unwrap();
    assert_eq!(content, b"content");
    volume.unmount();
}
