//! The directories that RocksDB writes: how each is made, and the content that Titan must read from
//! it.
//!
//! | file | directories that differ in |
//! |---|---|
//! | [`tables`] | tables: format versions, checksums, compression, indexes, filters, blocks |
//! | [`layouts`] | blob files, compactions, families, paths, ingested files, value types |
//! | [`logs`] | write-ahead logs, ends of the process, other files |
//! | [`transactions`] | transaction databases, by policy and by the fate of the transactions |
//!
//! A release writes the directories whose options it has. The result also depends on its defaults,
//! so the same case produces different files with every release.

mod layouts;
mod logs;
mod tables;
mod transactions;

use titan::ErrorKind;

/// Major and minor number of a release.
pub(super) type Series = (u32, u32);

/// Contents that Titan must read from a directory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expect {
    /// The same as RocksDB.
    Equal,
    /// When opened read-only, the same as RocksDB; opening for writing is `Unsupported` with this
    /// text, and leaves it unchanged.
    ReadOnly { text: &'static str },
    /// The same as RocksDB, which had a single level; opening for writing is refused until the
    /// options state a number of levels.
    EqualWithLevels,
    /// Nothing: opening it fails with an error of this kind and text, and leaves it unchanged.
    Refused { kind: ErrorKind, text: &'static str },
}

/// A directory that RocksDB writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The first series that can write it, and the first that no longer can.
    pub(super) since: Series,
    pub(super) until: Series,
    /// The kind of RocksDB database that writes it: `RocksDbPeer.java` has the names.
    pub(super) kind: &'static str,
    /// RocksDB's options of the database; `{root}` is the directory of the case.
    pub(super) db: &'static str,
    /// RocksDB's options of the families `default` and `second`.
    pub(super) family: &'static str,
    /// Additional families from the start, with their options.
    pub(super) others: &'static [(&'static str, &'static str)],
    /// Options of families, instead of `family`, with which RocksDB opens a database that Titan has
    /// compacted.
    pub(super) again: Option<&'static str>,
    /// The steps, in lines of `RocksDbPeer.java` but with blanks between their fields, `~` for a
    /// blank within one. `kill` kills the process, `open` opens the database again, `remove`
    /// removes files whose names start like this, `name-as-leveldb` renames the tables. The first
    /// opening is implied.
    pub(super) steps: &'static str,
    /// The subdirectory of `{root}` that Titan opens.
    pub(super) dir: &'static str,
    /// The name of bytewise order in Titan's options.
    pub(super) comparator: Option<&'static str>,
    /// An additional name of bytewise order in Titan's options.
    pub(super) alias: Option<&'static str>,
    /// The subdirectory of `{root}` that Titan's options name for the logs.
    pub(super) wal_dir: Option<&'static str>,
    pub(super) expect: Expect,
}

/// Several levels, and tables of a few hundred keys.
pub(super) const SMALL: &str = "write_buffer_size=65536 target_file_size_base=65536 \
     max_bytes_for_level_base=262144 level0_file_num_compaction_trigger=3";

/// Puts, overwrites and deletions of all three kinds, in tables and in the log.
const MIXED: &str = "
    fill default a 0 400 1 10 300
    fill default v 0 60 1 1000 6000
    fill second a 0 200 1 0 100
    flush
    fill default a 100 300 3 10 300
    delete default a 0 400 7
    single default v 50 60 1
    range default a 320 340
    flush
    fill default a 380 500 1 10 300
    range default v 10 13
    fill second b 0 50 1 0 3000
    delete second a 0 200 9
    close";

/// The same, compacted to the last level in between.
const COMPACTED: &str = "
    fill default a 0 400 1 10 300
    fill default v 0 60 1 1000 6000
    fill second a 0 200 1 0 100
    flush
    fill default a 100 300 3 10 300
    delete default a 0 400 7
    single default v 50 60 1
    range default a 320 340
    flush
    compact bottommost
    fill default a 380 500 1 10 300
    range default v 10 13
    fill second b 0 50 1 0 3000
    flush
    delete second a 0 200 9
    close";

/// The same, killed in the middle, opened again, and killed again.
const KILLED: &str = "
    fill default a 0 400 1 10 300
    fill second a 0 200 1 0 100
    flush
    fill default v 0 30 1 1000 6000
    delete default a 0 400 7
    single default v 5 9 1
    range default a 320 340
    kill
    open
    fill default a 100 300 3 10 300
    fill second b 0 50 1 0 3000
    range second a 50 60
    kill";

/// A feature that this version cannot handle.
const fn unsupported(text: &'static str) -> Expect {
    Expect::Refused {
        kind: ErrorKind::Unsupported,
        text,
    }
}

/// A directory with these options of families, of every release, in which Titan must find
/// everything.
const fn case(name: &'static str, family: &'static str) -> Case {
    Case {
        name,
        since: (0, 0),
        until: (u32::MAX, 0),
        kind: "plain",
        db: "",
        family,
        others: &[],
        again: None,
        steps: MIXED,
        dir: "db",
        comparator: None,
        alias: None,
        wal_dir: None,
        expect: Expect::Equal,
    }
}

impl Case {
    const fn since(mut self, major: u32, minor: u32) -> Case {
        self.since = (major, minor);
        self
    }

    const fn until(mut self, major: u32, minor: u32) -> Case {
        self.until = (major, minor);
        self
    }

    const fn kind(mut self, kind: &'static str) -> Case {
        self.kind = kind;
        self
    }

    const fn db(mut self, options: &'static str) -> Case {
        self.db = options;
        self
    }

    const fn others(mut self, others: &'static [(&'static str, &'static str)]) -> Case {
        self.others = others;
        self
    }

    const fn again(mut self, family: &'static str) -> Case {
        self.again = Some(family);
        self
    }

    const fn steps(mut self, steps: &'static str) -> Case {
        self.steps = steps;
        self
    }

    const fn dir(mut self, dir: &'static str) -> Case {
        self.dir = dir;
        self
    }

    const fn comparator(mut self, name: &'static str) -> Case {
        self.comparator = Some(name);
        self
    }

    const fn alias(mut self, name: &'static str) -> Case {
        self.alias = Some(name);
        self
    }

    const fn wal_dir(mut self, dir: &'static str) -> Case {
        self.wal_dir = Some(dir);
        self
    }

    const fn expect(mut self, expect: Expect) -> Case {
        self.expect = expect;
        self
    }

    /// Whether a release of this series writes it.
    pub(super) fn is_of(&self, series: Series) -> bool {
        (self.since..self.until).contains(&series)
    }
}

/// All of them.
pub(super) fn cases() -> impl Iterator<Item = &'static Case> {
    [
        tables::CASES,
        layouts::CASES,
        logs::CASES,
        transactions::COMMITTED,
        transactions::PREPARED,
        transactions::UNPREPARED,
        transactions::OTHERS,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn cases_can_be_told_apart() {
        let names: BTreeSet<&str> = cases().map(|case| case.name).collect();
        assert_eq!(names.len(), cases().count());
        assert!(cases().all(|case| case.since < case.until));
    }
}
