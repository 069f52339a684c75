//! Damages a small database and then uses it as if nothing had happened.

use titan::vfs::Vfs;
use titan::{ColumnFamily, Db, Error, ErrorKind, Options, ReadOptions, WriteBatch, WriteOptions};
use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::model::Pairs;
use titan_testkit::reads::scan;
use titan_testkit::sim::SimVfs;
use titan_tools::check;
use titan_tools::{RepairTo, repair};

use super::damage::Damaged;
use super::{certified, small};
use crate::recovery::sound;
use crate::store::{DIR, file};

/// Where a repaired database is put.
const REPAIRED: &str = "/repaired";

/// Damages a directory according to the bytes, checks it, repairs a copy of it, opens it, reads
/// everything, writes, compacts, closes, checks and opens again.
///
/// # Panics
/// If anything has a result other than an error that damage may cause; if a read returns a value
/// that was never written, or a write after the damage is lost later, unless checksums were
/// corrected; if a check finds nothing and reading does; if the latest writes are not there; if a
/// repaired database is not sound.
#[expect(clippy::panic, reason = "it is how a property fails")]
pub fn directory(data: &[u8]) {
    let Some(damaged) = Damaged::read(data) else {
        return;
    };
    let outcome = Use::of(&damaged).and_then(|u| u.run());
    if let Err(e) = outcome {
        let (base, story) = (&damaged.base.name, damaged.story.join("\n"));
        let disguised = damaged.disguised;
        panic!("{base}, checksums put right: {disguised}\n{story}\n{e}");
    }
}

/// Whether a damaged directory may cause such an error.
fn of_damage(e: &Error) -> bool {
    match e.kind() {
        ErrorKind::Corruption | ErrorKind::Unsupported => true,
        // A comparator of another name; a missing CURRENT.
        ErrorKind::InvalidOption | ErrorKind::InvalidArgument | ErrorKind::NotFound => true,
        // A flush or a compaction met the damage.
        ErrorKind::WritesStopped => true,
        _ => false,
    }
}

/// The treatment of a damaged directory.
#[derive(Clone)]
struct Use {
    options: Options,
    to_be_repaired: bool,
    /// Whether checksums were corrected after the damage, or a field without checksum was forged.
    disguised: bool,
    /// Whether nothing is damaged, so that nothing may fail.
    sound: bool,
    /// Whether only values that were once written may be read.
    certified: bool,
}

impl Use {
    fn of(damaged: &Damaged) -> Checked<Use> {
        let vfs = SimVfs::new();
        vfs.create_dir_all(DIR.as_ref())?;
        for file in &damaged.files {
            vfs.write_all(self::file(file.name), &file.bytes)?;
        }
        vfs.sync_all()?;
        let mut options = small(&vfs);
        options.db.create_if_missing = false;
        options.default.min_blob_size = 30;
        let disguised = damaged.disguised || damaged.forged;
        Ok(Use {
            options,
            to_be_repaired: damaged.to_be_repaired,
            disguised,
            sound: damaged.story.is_empty(),
            certified: damaged.base.certified && !disguised,
        })
    }

    /// The result of something that damage may prevent.
    fn stopped<T>(&self, what: &str, result: titan::Result<T>) -> Checked<Option<T>> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(e) if of_damage(&e) && !self.sound => Ok(None),
            failed => failed.map(Some).doing(what),
        }
    }

    fn run(&self) -> Checked<()> {
        let checked = self.check("at first")?;
        if self.to_be_repaired {
            self.repair()?;
        }
        let opened = self.stopped("opening", Db::open(DIR, &self.options))?;
        let Some(db) = opened else {
            return Ok(());
        };
        let clean = self.read(&db).doing("reading at first")?;
        ensure!(
            clean || !checked || !self.certified,
            "a check finds nothing, and reading does"
        );
        let written = self.write(&db)?;
        drop(db);
        self.check("afterwards")?;
        match Db::open(DIR, &self.options) {
            Ok(db) => self.find(&db, &written),
            Err(e) if self.certified && !written.is_empty() => {
                Err(e).doing("a database that was opened and written to opens no more")
            }
            Err(e) => self.stopped("opening again", Err::<(), _>(e)).map(|_| ()),
        }
    }

    /// Repairs the database into another directory, where everything must be sound.
    fn repair(&self) -> Checked<()> {
        let to = RepairTo::Directory(REPAIRED.into());
        let repaired = repair(DIR.as_ref(), &to, &self.options, &mut |_| {});
        if self.stopped("repairing", repaired)?.is_none() {
            return Ok(());
        }
        sound(REPAIRED.as_ref(), &self.options).doing("after the repair")?;
        let db = Db::open(REPAIRED, &self.options)?;
        // A value under a corrected checksum may fail to decompress: only reading shows it.
        let repaired = Use {
            sound: !self.disguised,
            ..self.clone()
        };
        repaired.read(&db).doing("reading the repaired database")?;
        Ok(db.close()?)
    }

    /// Whether a check of all files finds nothing wrong.
    fn check(&self, when: &str) -> Checked<bool> {
        let report = self.stopped("checking", check(DIR.as_ref(), &self.options, &mut |_| {}))?;
        let Some(report) = report else {
            return Ok(false);
        };
        for problem in &report.problems {
            ensure!(of_damage(problem), "check {when}: {problem:?}");
        }
        Ok(report.problems.is_empty())
    }

    /// Reads everything in every way; returns whether no error occurred.
    fn read(&self, db: &Db) -> Checked<bool> {
        let mut clean = true;
        for family in db.column_families() {
            let options = ReadOptions::default();
            let forward = self.stopped("reading", scan(&family, &options, false))?;
            let backward = self.stopped("reading backward", scan(&family, &options, true))?;
            clean &= forward.is_some() && backward.is_some();
            let both = forward.iter().chain(&backward);
            both.clone()
                .try_for_each(|found| self.certify(&family, found))?;
            if let (Some(forward), Some(backward), true) = (&forward, &backward, self.certified) {
                ensure!(forward == backward, "backward reads something else");
            }
            for key in certified::KEYS.map(certified::key) {
                let found = self.stopped("get", family.get(&key))?;
                clean &= found.is_some();
                let Some(found) = found else { continue };
                if let (Some(forward), true) = (&forward, self.certified) {
                    let scanned = forward.get(&key).map(Vec::as_slice);
                    ensure!(
                        found.as_deref() == scanned,
                        "{key:?}: get differs from scan"
                    );
                }
                if let Some(value) = found {
                    self.certify(&family, &Pairs::from([(key, value.to_vec())]))?;
                }
            }
        }
        Ok(clean)
    }

    /// Fails if one of the pairs was never written, and no checksums were corrected.
    fn certify(&self, family: &ColumnFamily, found: &Pairs) -> Checked<()> {
        for (key, value) in found {
            ensure!(
                !self.certified || certified::was_written(family.name(), key, value),
                "{}: {} is {}, which was never written",
                family.name(),
                key.escape_ascii(),
                value.escape_ascii()
            );
        }
        Ok(())
    }

    /// Writes to every family, flushes, compacts and closes; returns the writes acknowledged as
    /// durable.
    fn write(&self, db: &Db) -> Checked<Vec<(String, Vec<u8>)>> {
        let mut written = Vec::new();
        for family in db.column_families() {
            for n in certified::KEYS.step_by(9) {
                let key = certified::key(n);
                let mut batch = WriteBatch::new();
                let value = certified::value(family.name(), &key, n % 4);
                batch.put(&family, &key, value)?;
                let put = db.write(batch, &WriteOptions::synced());
                if self.stopped("writing", put)?.is_some() {
                    written.push((family.name().to_owned(), key.clone()));
                    let found = self.stopped("get of a written key", family.get(&key))?;
                    ensure!(found != Some(None), "a written key is not there");
                }
            }
        }
        let flushed = self.stopped("flush", db.flush_all())?;
        for family in db.column_families().iter().filter(|_| flushed.is_some()) {
            let compacted = family.compact_range(None, None, &Default::default());
            self.stopped("compaction", compacted)?;
        }
        self.stopped("waiting", db.wait_idle())?;
        self.stopped("close", db.close())?;
        Ok(written)
    }

    /// Checks that acknowledged writes are there.
    fn find(&self, db: &Db, written: &[(String, Vec<u8>)]) -> Checked<()> {
        self.read(db).doing("reading after opening again")?;
        for (family, key) in written {
            let Some(handle) = db.column_family(family) else {
                return Err(CheckFailure::wrong(format!("{family} is gone")));
            };
            let found = self.stopped("get after reopening", handle.get(key))?;
            // A forged sequence number may be newer than any write.
            ensure!(
                found != Some(None) || self.disguised,
                "{family}: {key:?} is gone"
            );
        }
        self.stopped("the last close", db.close()).map(|_| ())
    }
}
