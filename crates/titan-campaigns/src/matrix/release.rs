//! RocksDB's releases: fetched, and run in a process of their own.
//!
//! A release is the library in the jar of its Java interface. `peer/RocksDbPeer.java` is compiled
//! for it, and told what to do by lines. A process that was killed is started again.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::cases::Series;
use crate::peer::Peer;
use crate::trouble::{Checked, Doing, Trouble, ensure};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peer/RocksDbPeer.java");
const CLASS: &str = "RocksDbPeer";
const ARTIFACT: &str = "org.rocksdb:rocksdbjni";
/// Debian's package of java and javac.
const JAVA: &str = "default-jdk-headless";
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy";

/// A release, on this machine.
#[derive(Clone, Debug)]
pub(super) struct Release {
    pub(super) version: String,
    pub(super) series: Series,
    jar: PathBuf,
}

impl Release {
    /// The release of this version; its jar is fetched into `jars` unless it is there.
    ///
    /// # Errors
    /// What is missing and how to install it; or what the client says that fetches it.
    pub(super) fn fetch(version: &str, jars: &Path) -> Checked<Release> {
        let mut numbers = version.split('.').map(str::parse);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return Err(Trouble::wrong(format!(
                "\"{version}\" is no version of RocksDB, as 8.11.4 is"
            )));
        };
        let jar = jar(jars, version);
        if !jar.exists() {
            fetch(version, jars).doing(format_args!("fetching RocksDB {version}"))?;
        }
        Ok(Release {
            version: version.to_owned(),
            series: (major, minor),
            jar,
        })
    }

    /// The program for this release, with its files in `dir`.
    pub(super) fn compile(&self, dir: &Path) -> Checked<Program> {
        let dir = dir.join("program");
        fs::create_dir_all(&dir).doing(dir.display())?;
        let mut javac = Command::new("javac");
        javac.arg("-cp").arg(&self.jar);
        javac.args(["-nowarn", "-d"]).arg(&dir).arg(SOURCE);
        output(&mut javac, JAVA).doing(format_args!("{SOURCE} for RocksDB {}", self.version))?;
        Ok(Program {
            jar: self.jar.clone(),
            dir,
            running: None,
        })
    }
}

fn jar(jars: &Path, version: &str) -> PathBuf {
    jars.join(format!("rocksdbjni-{version}.jar"))
}

/// Whether the jar of this version is in `jars`.
pub(super) fn is_there(version: &str, jars: &Path) -> bool {
    jar(jars, version).exists()
}

/// Has Maven fetch a jar into `jars`.
fn fetch(version: &str, jars: &Path) -> Checked<()> {
    // Elsewhere first: others may be fetching it too, and what was interrupted is no jar.
    fs::create_dir_all(jars).doing(jars.display())?;
    let mine = tempfile::tempdir_in(jars).doing(jars.display())?;
    let mut maven = Command::new("mvn");
    // Checksums that do not match are errors.
    maven
        .args(["--batch-mode", "--quiet", "--strict-checksums", COPY])
        .arg(format!("-Dartifact={ARTIFACT}:{version}"))
        .arg(format!("-DoutputDirectory={}", mine.path().display()))
        .current_dir(mine.path());
    output(&mut maven, "maven")?;
    let (fetched, to) = (jar(mine.path(), version), jar(jars, version));
    fs::rename(&fetched, &to).doing(fetched.display())
}

/// Runs a program of Debian's `package` to its end, which must be a good one.
fn output(program: &mut Command, package: &str) -> Checked<Output> {
    let name = program.get_program().display().to_string();
    let run = program.output().doing(format_args!(
        "{name} cannot be run; on Debian: apt-get install {package}"
    ))?;
    ensure!(
        run.status.success(),
        "{name}: {}: {}{}",
        run.status,
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
    Ok(run)
}

/// Whether there is what runs releases.
///
/// # Errors
/// What is missing and how to install it.
pub(super) fn java_is_there() -> Checked<()> {
    output(Command::new("javac").arg("-version"), JAVA).map(drop)
}

/// A release that can be told what to do.
pub(super) struct Program {
    jar: PathBuf,
    dir: PathBuf,
    running: Option<Peer>,
}

impl Program {
    /// Sends a line, whose fields are separated by tabs, and waits until it is done. `kill` kills
    /// the process instead; the next line starts another one.
    pub(super) fn ask(&mut self, line: &str) -> Checked<()> {
        let running = self.running.take();
        if line == "kill" {
            return Ok(());
        }
        let mut running = match running {
            Some(running) => running,
            None => Peer::start(self.java())?,
        };
        running.ask(line).doing(line.replace('\t', " "))?;
        // After an error it is gone, and with it whatever it had open.
        self.running = Some(running);
        Ok(())
    }

    fn java(&self) -> Command {
        let mut java = Command::new("java");
        let mut path = self.dir.clone().into_os_string();
        path.push(":");
        path.push(&self.jar);
        // The library is unpacked into a temporary directory, and stays there after a kill.
        let mut temporary = OsString::from("-Djava.io.tmpdir=");
        temporary.push(&self.dir);
        java.arg(temporary)
            // Java leaves a report there when RocksDB crashes.
            .current_dir(&self.dir)
            .args(["-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp"])
            .arg(path)
            .arg(CLASS);
        java
    }
}
