//! A cluster of etcd on this machine, whose members can be killed and stopped.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use titan_testkit::requirement;
use titan_testkit::setup::eventually;

/// The program of Debian's package `etcd-server`.
const PROGRAM: &str = "etcd";

/// Members, each with a process and a directory.
pub struct Etcd {
    members: Vec<Member>,
    options: Vec<String>,
    dir: TempDir,
}

struct Member {
    /// The ports for clients and for the other members.
    ports: [u16; 2],
    process: Option<Child>,
}

impl Etcd {
    /// Starts members. Without the program, the test says so; it should return.
    pub fn start(members: usize, options: &[&str]) -> Option<Etcd> {
        let found = Command::new(PROGRAM).arg("--version").output();
        requirement::met("etcd: Debian's package etcd-server", found)?;
        let mut etcd = Etcd {
            members: Vec::new(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            dir: tempfile::tempdir().unwrap(),
        };
        while etcd.members.len() < members {
            etcd.members.push(Member {
                ports: [free_port(), free_port()],
                process: None,
            });
        }
        for member in 0..members {
            etcd.spawn(member);
        }
        etcd.wait_for_leader();
        Some(etcd)
    }

    /// The address of a volume with blocks in a directory, and parameters.
    pub fn url(&self, name: &str, parameters: &str) -> String {
        format!(
            "etcd://{}/{name}?blocks=file://{}&{parameters}",
            self.endpoints(),
            self.blocks().display()
        )
    }

    /// The addresses of the members, separated by commas.
    pub fn endpoints(&self) -> String {
        let all: Vec<String> = { self.members.iter() }
            .map(|member| format!("127.0.0.1:{}", member.ports[0]))
            .collect();
        all.join(",")
    }

    /// The directory of the blocks.
    pub fn blocks(&self) -> PathBuf {
        self.dir.path().join("blocks")
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Kills a member, as `kill -9` does.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut process) = self.members[member].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Starts a member that was killed. One that has ended by itself is a failure.
    pub fn restart(&mut self, member: usize) {
        let Some(process) = &mut self.members[member].process else {
            return self.spawn(member);
        };
        if let Some(status) = process.try_wait().unwrap() {
            let log = fs::read_to_string(self.log(member)).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(20).collect();
            panic!("a member of etcd has ended with {status}, the last first: {last:#?}");
        }
    }

    /// The log of a member.
    fn log(&self, member: usize) -> PathBuf {
        self.dir.path().join(format!("m{member}.log"))
    }

    /// Stops a member, which keeps its connections.
    pub fn stop(&self, member: usize) {
        self.signal(member, Signal::STOP);
    }

    /// Lets a stopped member go on.
    pub fn go_on(&self, member: usize) {
        self.signal(member, Signal::CONT);
    }

    fn signal(&self, member: usize, signal: Signal) {
        if let Some(process) = &self.members[member].process {
            let process = Pid::from_raw(process.id().cast_signed()).unwrap();
            kill_process(process, signal).unwrap();
        }
    }

    /// The member that leads, if one says so.
    pub fn leader(&self) -> Option<usize> {
        (0..self.members.len()).find(|member| {
            let status = self.status(*member).unwrap_or_default();
            let field = |name: &str| {
                let (_, rest) = status.split_once(&format!("\"{name}\":\""))?;
                rest.split_once('"').map(|(value, _)| value.to_owned())
            };
            let leader = field("leader");
            leader.is_some() && leader == field("member_id")
        })
    }

    /// Waits until a member leads.
    pub fn wait_for_leader(&self) {
        eventually("etcd has a leader", || self.leader().is_some());
    }

    fn status(&self, member: usize) -> Option<String> {
        self.members[member].process.as_ref()?;
        let address = ([127, 0, 0, 1], self.members[member].ports[0]);
        let patience = Duration::from_secs(1);
        let mut stream = TcpStream::connect_timeout(&address.into(), patience).ok()?;
        stream.set_read_timeout(Some(patience)).ok()?;
        let request = "POST /v3/maintenance/status HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}";
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn spawn(&mut self, member: usize) {
        let address = |port: u16| format!("http://127.0.0.1:{port}");
        let peers: Vec<String> = { self.members.iter().enumerate() }
            .map(|(number, member)| format!("m{number}={}", address(member.ports[1])))
            .collect();
        let [clients, peer] = self.members[member].ports.map(address);
        let data = self.dir.path().join(format!("m{member}"));
        let log = open_log(&self.log(member));
        let mut command = Command::new(PROGRAM);
        command
            .args(["--name", &format!("m{member}"), "--data-dir"])
            .arg(&data)
            .args(["--listen-client-urls", &clients])
            .args(["--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &peers.join(",")])
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.members[member].process = Some(command.spawn().unwrap());
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(mut process) = member.process.take() {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

fn open_log(path: &Path) -> fs::File {
    let log = fs::File::options().create(true).append(true).open(path);
    log.unwrap()
}

/// A port below those that the system gives out, so that it is free when a member starts again.
fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports = std::iter::repeat_with(|| fastrand::u16(10_000..30_000));
    ports.find(is_free).unwrap()
}
