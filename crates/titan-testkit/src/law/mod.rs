//! The laws of modules and of words, for every crate of the workspace: tests read the sources.
//!
//! `docs/architecture.md` has one table for each crate under `## Modules of CRATE`. A row begins
//! with the names of modules, ``| `a`, `b` | owns |``, the lowest first, in a row from left to
//! right. A name may be the path of a folder, as `db/core`. The laws:
//!
//! - [order](Crate::breaches_of_order): a module uses only modules that come before it. The module
//!   that defines an item counts, not one that re-exports it;
//! - [circles](Crate::breaches_of_circles): no two files or folders of a folder reach each other by
//!   imports;
//! - [sizes](Crate::breaches_of_sizes): no struct that several files touch has more than 12
//!   fields, no file more than 600 lines.
//!
//! Each law gives a list of breaches, which is to be empty:
//!
//! ```no_run
//! use titan_testkit::law::{Crate, assert_none};
//!
//! # fn main() -> std::io::Result<()> {
//! let tifs = Crate::read("tifs", env!("CARGO_MANIFEST_DIR"))?;
//! assert_none(tifs.breaches_of_order(), &[]);
//! # Ok(())
//! # }
//! ```

mod circles;
mod order;
mod sizes;
mod sources;
mod text;
mod uses;
pub mod words;

use std::io;
use std::path::{Path, PathBuf};

use sources::Sources;

/// The sources of one crate, and the documented order of its modules.
pub struct Crate {
    dir: PathBuf,
    sources: Sources,
    /// The modules of the table, the lowest first.
    order: Vec<Vec<String>>,
}

impl Crate {
    /// Reads the crate in a directory, and its table in the `docs/architecture.md` above it.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn read(name: &str, dir: impl AsRef<Path>) -> io::Result<Crate> {
        let dir = dir.as_ref().to_owned();
        let document = std::fs::read_to_string(dir.join("../../docs/architecture.md"))?;
        let order = order::documented(&document, name);
        let sources = Sources::read(&dir.join("src"))?;
        Ok(Crate {
            dir,
            sources,
            order,
        })
    }

    /// Imports of modules that are not lower, modules that the table lacks, and rows of the table
    /// that are no modules.
    pub fn breaches_of_order(&self) -> Vec<String> {
        order::breaches(&self.sources, &self.order)
    }

    /// Circles of imports: of files, and of folders within a folder.
    pub fn breaches_of_circles(&self) -> Vec<String> {
        circles::breaches(&self.sources)
    }

    /// Structs that several files touch with more than 12 fields, and files with more than 600
    /// lines.
    ///
    /// `records` names the structs that are data, not parts of the program: one field for each
    /// field of a format, for each option of a call, or for each number that users are shown.
    ///
    /// # Errors
    ///
    /// If a directory cannot be read.
    pub fn breaches_of_sizes(&self, records: &[&str]) -> io::Result<Vec<String>> {
        let mut breaches = sizes::structs(&self.sources, records);
        breaches.extend(sizes::files(&self.dir)?);
        Ok(breaches)
    }

    /// The code of each file that is not only for tests, without comments and literals: its path
    /// beneath `src`, and its text.
    pub fn code(&self) -> impl Iterator<Item = (&Path, &str)> {
        let modules = self.sources.0.values();
        modules.map(|module| (module.file.as_path(), module.code.as_str()))
    }
}

/// Makes the tests of the laws of modules for the crate that calls it, whose name it gets. The
/// exceptions are those of [`assert_none`]; `records` are those of [`Crate::breaches_of_sizes`].
#[macro_export]
macro_rules! module_laws {
    (
        $name:literal,
        circles: $circles:expr,
        records: $records:expr,
        sizes: $sizes:expr $(,)?
    ) => {
        fn sources() -> $crate::law::Crate {
            $crate::law::Crate::read($name, env!("CARGO_MANIFEST_DIR")).unwrap()
        }

        #[test]
        fn modules_use_only_lower_ones() {
            $crate::law::assert_none(sources().breaches_of_order(), &[]);
        }

        #[test]
        fn files_are_in_no_circle() {
            $crate::law::assert_none(sources().breaches_of_circles(), $circles);
        }

        #[test]
        fn structs_and_files_are_small() {
            let breaches = sources().breaches_of_sizes($records).unwrap();
            $crate::law::assert_none(breaches, $sizes);
        }
    };
}

/// Fails unless there is exactly one breach for each exception, which the breach begins with.
///
/// An exception is a debt: once it is paid, its entry has to go.
///
/// # Panics
///
/// If there are other breaches, or an exception that nothing needs.
pub fn assert_none(mut breaches: Vec<String>, exceptions: &[&str]) {
    let mut paid = Vec::new();
    for exception in exceptions {
        match breaches
            .iter()
            .position(|breach| breach.starts_with(exception))
        {
            Some(found) => drop(breaches.remove(found)),
            None => paid.push(exception),
        }
    }
    assert!(
        breaches.is_empty(),
        "{} breaches:\n{}",
        breaches.len(),
        breaches.join("\n")
    );
    assert!(paid.is_empty(), "exceptions that nothing needs: {paid:?}");
}

#[cfg(test)]
mod tests;
