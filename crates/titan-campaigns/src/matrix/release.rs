//! RocksDB's releases: fetched, and run in processes of their own.
//!
//! A release is the library in the jar of its Java interface. `peer/RocksDbPeer.java` is compiled
//! for it and receives commands as lines. A killed process is started again.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::peer::Peer;

use super::cases::Series;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peer/RocksDbPeer.java");
const CLASS: &str = "RocksDbPeer";
const ARTIFACT: &str = "org.rocksdb:rocksdbjni";
/// Debian's package of java and javac.
const JAVA: &str = "default-jdk-headless";
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy";

/// A release on this machine.
#[derive(Clone, Debug)]
pub(super) struct Release {
    pub(super) version: String,
    pub(super) series: Series,
    jar: PathBuf,
}

impl Release {
    /// The release of this version; fetches its jar into `jars` if it is missing.
    ///
    /// # Errors
    /// The programs that are missing and how to install them; or the errors of the client that
    /// fetches it.
    pub(super) fn fetch(version: &str, jars: &Path) -> Checked<Release> {
        let mut numbers = version.split('.').map(str::parse);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return Err(CheckFailure::wrong(format!(
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

/// Lets Maven fetch a jar into `jars`.
fn fetch(version: &str, jars: &Path) -> Checked<()> {
    // Into another directory first: other processes may be fetching it too, and an interrupted
    // download must not look like a jar.
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

/// Runs a program of Debian's `package`, which must succeed.
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

/// Checks that the programs to run releases are installed.
///
/// # Errors
/// The programs that are missing and how to install them.
pub(super) fn java_is_there() -> Checked<()> {
    output(Command::new("javac").arg("-version"), JAVA).map(drop)
}

/// A release that accepts commands.
pub(super) struct Program {
    jar: PathBuf,
    dir: PathBuf,
    running: Option<Peer>,
}

impl Program {
    /// Sends a line, whose fields are separated by tabs, and waits until it is done. `kill` kills
    /// the process instead; the next line starts a new one.
    pub(super) fn ask(&mut self, line: &str) -> Checked<()> {
        let running = self.running.take();
        if line == "kill" {
            return Ok(());
        }
        let mut running = match running {
            Some(running) => running,
            None => Peer::start("RocksDB", self.java())?,
        };
        running.ask(line).doing(line.replace('\t', " "))?;
        // After an error the process is dropped, with everything it had open.
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
            // Java writes a report there when RocksDB crashes.
            .current_dir(&self.dir)
            .args(["-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp"])
            .arg(path)
            .arg(CLASS);
        java
    }
}
