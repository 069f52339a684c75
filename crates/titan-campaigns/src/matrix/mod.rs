//! RocksDB's releases and Titan read each other's directories.
//!
//! | file | owns |
//! |---|---|
//! | [`cases`] | the directories of RocksDB, and the content that Titan must read from each |
//! | [`release`] | RocksDB of any release in its own process |
//! | [`content`] | the contents of a database according to each of the two |
//! | [`looks`] | the steps of Titan on such a directory |
//! | [`written`] | the directories that Titan writes |
//! | [`followed`] | a secondary beside Titan, which writes |
//!
//! Each release writes the directories for which it has options. RocksDB itself then lists the
//! contents of a copy, since reading changes a directory. Titan must read the same, or refuse for
//! the reason that the case states; write, flush, compact, check and open it again; and RocksDB
//! must read the result, write to it, and then Titan again (FMT-1). In the other direction every
//! release reads a database that Titan wrote, flushes and compacts it, and Titan reads the result.
//! And a secondary of the release follows a database that Titan writes to.

mod cases;
mod content;
mod followed;
mod looks;
mod release;
mod written;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use titan::ErrorKind;
use titan_testkit::failure::{Checked, Doing, ensure};
use titan_testkit::model::Model;
use titan_tools::downgrade;

use self::cases::{Case, Expect, SMALL, cases};
use self::content::{dumped, same};
use self::release::{Program, Release};
use self::written::Written;
use crate::pool::{Task, catch, run_all};
use crate::run::Run;

/// The releases of the whole campaign, oldest first: of every major version since 6.29.
pub const VERSIONS: &[&str] = &[
    "6.29.5", "7.3.1", "7.10.2", "8.11.4", "9.10.0", "10.10.1", "11.1.1", "11.8.1",
];

/// Titan's results for the directories of a release.
#[derive(Clone, Copy, Debug, Default)]
struct Verdicts {
    equal: u64,
    refused: u64,
    /// Titan's own, which the release reads.
    written: u64,
    wrong: u64,
}

impl Verdicts {
    /// Counts a directory of Titan's.
    fn add_own(&mut self, is_read: bool) {
        match is_read {
            true => self.written += 1,
            false => self.wrong += 1,
        }
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} equal, {} refused; {} of Titan's read; {} wrong",
            self.equal, self.refused, self.written, self.wrong
        )
    }
}

/// The part of the campaign that is run, and its directory.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Versions of RocksDB.
    pub versions: Vec<String>,
    /// Only cases, and configurations of Titan, whose name contains one of these.
    pub only: Vec<String>,
    /// The directory of RocksDB's jars, to which missing ones are fetched.
    pub jars: PathBuf,
    /// Number of Titan's configurations that write a directory.
    pub configurations: usize,
}

impl Matrix {
    /// Everything, with jars in this directory.
    pub fn new(jars: &Path) -> Matrix {
        Matrix {
            versions: VERSIONS.iter().map(|&version| version.to_owned()).collect(),
            only: Vec::new(),
            jars: jars.to_owned(),
            configurations: usize::MAX,
        }
    }

    /// The names of the cases, one per line.
    pub fn list() -> Vec<String> {
        let line = |case: &Case| format!("{:36} {:?}", case.name, case.expect);
        cases().map(line).collect()
    }

    /// The releases whose jars are missing.
    pub fn missing(&self) -> Vec<&str> {
        let versions = self.versions.iter().map(String::as_str);
        versions
            .filter(|version| !release::is_there(version, &self.jars))
            .collect()
    }

    /// Fetches the missing releases.
    ///
    /// # Errors
    /// The programs that are missing and how to install them.
    pub fn fetch(&self, run: &Run) -> Checked<Releases> {
        release::java_is_there()?;
        let fetch = |version: &String| {
            run.phase(format_args!("RocksDB {version}"));
            Release::fetch(version, &self.jars)
        };
        let releases: Checked<Vec<Release>> = self.versions.iter().map(fetch).collect();
        Ok(Releases(releases?))
    }

    /// Runs the campaign. Counts directories; those that fail are kept.
    pub fn run(&self, run: &Run, releases: Releases) {
        run.look_at_everything();
        for seed in run.seeds(1) {
            if let Err(failure) = self.round(run, &releases, seed) {
                run.fail(failure);
            }
        }
    }

    fn round(&self, run: &Run, releases: &Releases, seed: u64) -> Checked<()> {
        let scratch = scratch()?;
        let written = written::write_all(scratch.path(), seed, &self.only, self.configurations)?;
        let shared = Arc::new(Shared {
            written,
            dir: scratch.path().to_owned(),
            only: self.only.clone(),
            verdicts: Mutex::default(),
            seed,
        });
        let job = Arc::clone(&shared);
        run_all(run, releases.0.clone().into_iter(), move |release, task| {
            if let Err(failure) = job.judge(&release, task) {
                task.fail(format!("RocksDB {}: {failure}", release.version));
            }
        });
        let verdicts = shared.verdicts.lock();
        for ((_, version), verdicts) in verdicts.iter() {
            run.note(format!("RocksDB {version}: {verdicts}"));
        }
        if verdicts.values().any(|v| v.wrong > 0) {
            // The failure was reported with its path.
            let _ = scratch.keep();
        }
        Ok(())
    }

    fn wants(only: &[String], name: &str) -> bool {
        only.is_empty() || only.iter().any(|part| name.contains(part.as_str()))
    }
}

/// Releases available on this machine.
#[derive(Clone, Debug)]
pub struct Releases(Vec<Release>);

/// A directory in memory if possible, because syncs would take most of the time otherwise.
fn scratch() -> Checked<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let mut named = tempfile::Builder::new();
    let named = named.prefix("titan-rocksdb-matrix-");
    let dir = match memory.is_dir() {
        true => named.tempdir_in(memory),
        false => named.tempdir(),
    };
    dir.doing("a temporary directory")
}

/// A release: major and minor number for sorting, and the whole version.
type ReleaseKey = ((u32, u32), String);

/// State shared by the jobs of a round; each job is for one release.
struct Shared {
    written: Vec<Written>,
    dir: PathBuf,
    only: Vec<String>,
    verdicts: Mutex<BTreeMap<ReleaseKey, Verdicts>>,
    seed: u64,
}

impl Shared {
    fn judge(&self, release: &Release, task: &Task) -> Checked<()> {
        let dir = self.dir.join(&release.version);
        let mut program = release.compile(&dir)?;
        let mut verdicts = Verdicts::default();
        let wanted = cases().filter(|case| case.is_of(release.series));
        let wanted = wanted.filter(|case| Matrix::wants(&self.only, case.name));
        for case in wanted.take_while(|_| task.goes_on()) {
            let root = dir.join(case.name);
            let said = self.directory(release, task, case.name, &root, || {
                let made = Made::by(case, &root, &mut program, self.seed)?;
                made.judge(&mut program)
            });
            match (said, case.expect) {
                (false, _) => verdicts.wrong += 1,
                (true, Expect::Refused { .. }) => verdicts.refused += 1,
                (true, _) => verdicts.equal += 1,
            }
        }
        let written = self.written.iter();
        let written = written.filter(|written| written.since <= release.series);
        for written in written.take_while(|_| task.goes_on()) {
            let root = dir.join(written.name.replace([' ', ','], "-"));
            let said = self.directory(release, task, written.name, &root, || {
                written.read_by(&mut program, &root)
            });
            verdicts.add_own(said);
        }
        if Matrix::wants(&self.only, followed::NAME) && task.goes_on() {
            let root = dir.join(followed::NAME);
            let said = self.directory(release, task, followed::NAME, &root, || {
                followed::follow(&mut program, &root, self.seed)
            });
            verdicts.add_own(said);
        }
        let key = (release.series, release.version.clone());
        self.verdicts.lock().insert(key, verdicts);
        Ok(())
    }

    /// Checks one directory; deletes it if it passes.
    fn directory(
        &self,
        release: &Release,
        task: &Task,
        name: &str,
        root: &Path,
        judge: impl FnOnce() -> Checked<()>,
    ) -> bool {
        let what = format!("RocksDB {}, {name}", release.version);
        let step = what.clone();
        task.step(move || step.clone());
        let judged = catch(|| {
            fs::create_dir_all(root).doing(root.display())?;
            judge()
        });
        match judged {
            Ok(()) => {
                task.pass(1);
                // All of it is deleted with the scratch directory at the end.
                let _ = fs::remove_dir_all(root);
                true
            }
            Err(failure) => {
                task.fail(format!("{what}: {failure}\nkept in {}", root.display()));
                false
            }
        }
    }
}

/// A directory that RocksDB has written.
struct Made<'a> {
    case: &'a Case,
    root: &'a Path,
}

impl<'a> Made<'a> {
    /// Lets RocksDB write the directory of a case.
    fn by(case: &'a Case, root: &'a Path, program: &mut Program, seed: u64) -> Checked<Self> {
        let made = Made { case, root };
        let live = made.live();
        fs::create_dir_all(&live).doing(live.display())?;
        program.ask(&format!("seed\t{seed}"))?;
        made.open(program, case.kind, &live, "db", case.family)?;
        let steps = case.steps.lines().map(str::trim);
        for step in steps.filter(|step| !step.is_empty()) {
            let step = step.replace("{root}", &live.to_string_lossy());
            match step.split_once(' ') {
                None if step == "open" => {
                    made.open(program, case.kind, &live, "db", case.family)?
                }
                Some(("remove", start)) => remove(&live.join("db"), start)?,
                None if step == "name-as-leveldb" => name_as_leveldb(&live.join("db"))?,
                _ => program.ask(&step.replace(' ', "\t").replace('~', " "))?,
            }
        }
        Ok(made)
    }

    /// The directory that RocksDB writes and that Titan uses afterwards.
    fn live(&self) -> PathBuf {
        self.root.join("live")
    }

    fn open(
        &self,
        program: &mut Program,
        kind: &str,
        root: &Path,
        dir: &str,
        family: &str,
    ) -> Checked<()> {
        let case = self.case;
        let dir = root.join(dir);
        let mut line = format!("open\t{kind}\t{}\t{}", dir.display(), case.db);
        let known = [("default", family), ("second", family)];
        for (name, options) in known.iter().chain(case.others) {
            line.push_str(&format!("\t{name}\t{SMALL} {options}"));
        }
        program.ask(&line.replace("{root}", &root.to_string_lossy()))
    }

    /// The kind of RocksDB database that shows all stored entries: one with TTLs omits some.
    fn reader(&self) -> &'static str {
        match self.case.kind {
            "ttl" => "plain",
            kind => kind,
        }
    }

    /// The contents of a copy according to RocksDB, which may change the copy.
    fn says(&self, program: &mut Program) -> Checked<Model> {
        let copy = self.root.join("copy");
        copy_all(&self.live(), &copy)?;
        self.open(
            program,
            self.reader(),
            &copy,
            self.case.dir,
            self.case.family,
        )?;
        let said = self.dump(program)?;
        program.ask("close")?;
        fs::remove_dir_all(&copy).doing(copy.display())?;
        Ok(said)
    }

    fn dump(&self, program: &mut Program) -> Checked<Model> {
        let file = self.root.join("content");
        program.ask(&format!("dump\t{}", file.display()))?;
        dumped(&file)
    }

    /// Checks that Titan reads the content that the case states, and that RocksDB reads the result
    /// of Titan's work.
    fn judge(&self, program: &mut Program) -> Checked<()> {
        let case = self.case;
        let dir = self.live().join(case.dir);
        let mut options = looks::options(case, &self.live());
        if let Expect::Refused { kind, text } = case.expect {
            return looks::refused(&dir, &options, kind, text);
        }
        let said = self.says(program).doing("RocksDB's own copy")?;
        if let Expect::ReadOnly { text } = case.expect {
            looks::looked_at(&dir, &options, &said)?;
            return looks::refused_to_write(&dir, &options, ErrorKind::Unsupported, text);
        }
        if matches!(case.expect, Expect::EqualWithLevels) {
            looks::looked_at(&dir, &options, &said)?;
            looks::refused_to_write(&dir, &options, ErrorKind::InvalidOption, "num_levels=1")?;
            looks::state_levels(&mut options, &dir)?;
        }
        let held = looks::lived_in(&dir, &options, &said)?;
        // RocksDB would not find relocated records, if there are any.
        downgrade(&dir, &options, &mut |_| {}).doing("downgrading")?;
        let family = case.again.unwrap_or(case.family);
        self.open(program, self.reader(), &self.live(), case.dir, family)
            .doing("RocksDB, after Titan")?;
        same(&self.dump(program)?, &held).doing("RocksDB, after Titan")?;
        program.ask("fill\tdefault\ta\t30\t40\t1\t10\t2000")?;
        program.ask("flush")?;
        program.ask("compact")?;
        program.ask("fill\tdefault\tb\t0\t10\t1\t10\t2000")?;
        program.ask("verify")?;
        let said = self.dump(program)?;
        program.ask("close")?;
        looks::looked_at(&dir, &options, &said).doing("Titan, after RocksDB")
    }
}

/// Removes the files of a directory whose names start with `start`; there must be one.
fn remove(dir: &Path, start: &str) -> Checked<()> {
    let mut removed = 0;
    for entry in fs::read_dir(dir).doing(dir.display())? {
        let path = entry.doing(dir.display())?.path();
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(start))
        {
            fs::remove_file(&path).doing(path.display())?;
            removed += 1;
        }
    }
    ensure!(removed > 0, "{} has no {start}", dir.display());
    Ok(())
}

/// Gives the tables of a directory the names that LevelDB gives them; there must be one.
fn name_as_leveldb(dir: &Path) -> Checked<()> {
    let mut renamed = 0;
    for entry in fs::read_dir(dir).doing(dir.display())? {
        let path = entry.doing(dir.display())?.path();
        if path.extension().is_some_and(|extension| extension == "sst") {
            fs::rename(&path, path.with_extension("ldb")).doing(path.display())?;
            renamed += 1;
        }
    }
    ensure!(renamed > 0, "{} has no tables", dir.display());
    Ok(())
}

/// Copies a directory with its contents.
fn copy_all(from: &Path, to: &Path) -> Checked<()> {
    fs::create_dir_all(to).doing(to.display())?;
    for entry in fs::read_dir(from).doing(from.display())? {
        let entry = entry.doing(from.display())?;
        let to = to.join(entry.file_name());
        match entry.file_type().doing(from.display())?.is_dir() {
            true => copy_all(&entry.path(), &to)?,
            false => drop(fs::copy(entry.path(), &to).doing(to.display())?),
        }
    }
    Ok(())
}
