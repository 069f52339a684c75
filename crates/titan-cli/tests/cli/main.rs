//! The `titan` command as a user runs it: the binary, in directories of its own.

#![expect(clippy::unwrap_used, reason = "what fails a test may end it")]

mod bench;
mod beside;
mod copies;
mod descriptors;
mod examples;
mod families;
mod gc;
mod ime;
mod interrupts;
mod kept_options;
mod keys;
mod layers;
mod looking;
mod moving;
mod mvcc;
mod ranges;
mod records;
mod refusals;
mod repair;
mod scan;
#[cfg(feature = "serve")]
mod served;
mod space;
mod top;
mod trees;
mod usage;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory in which commands run.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: impl AsRef<Path>, contents: impl AsRef<[u8]>) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    /// A configuration in which garbage is collected only on request.
    fn collects_nothing(&self) -> &'static str {
        self.write(
            "quiet.toml",
            "[default]\nenable_blob_garbage_collection = false\n",
        );
        "quiet.toml"
    }

    fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_titan"));
        command
            .current_dir(self.0.path())
            .args(args)
            .stdin(Stdio::null());
        command
    }

    fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Standard output of a command that succeeds and prints nothing on standard error except
    /// which options it took over.
    fn ok<S: AsRef<OsStr>>(&self, args: &[S]) -> Vec<u8> {
        let output = self.run(args);
        let args: Vec<_> = args.iter().map(AsRef::as_ref).collect();
        assert!(output.status.success(), "{args:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        let is_news =
            |line: &str| !line.contains("options kept") && !line.contains("taken_options");
        assert!(!said.lines().any(is_news), "{args:?}: {output:?}");
        output.stdout
    }

    fn text<S: AsRef<OsStr>>(&self, args: &[S]) -> String {
        String::from_utf8(self.ok(args)).unwrap()
    }

    fn json<S: AsRef<OsStr>>(&self, args: &[S]) -> Value {
        serde_json::from_slice(&self.ok(args)).unwrap()
    }

    /// Standard error of a command that fails, with the status for what it says.
    fn refused<S: AsRef<OsStr>>(&self, args: &[S]) -> String {
        let output = self.run(args);
        let args: Vec<_> = args.iter().map(AsRef::as_ref).collect();
        let said = String::from_utf8(output.stderr).unwrap();
        let has = |text: &str| said.contains(text);
        let status = if has("titan: corruption: ") {
            6
        } else if has("titan: not found: key ") {
            4
        } else if has("no database exists") || has("titan: not found: column family ") {
            5
        } else {
            1
        };
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        said
    }

    /// Standard error of a command that ends with this status.
    fn fails<S: AsRef<OsStr>>(&self, status: i32, args: &[S]) -> String {
        let output = self.run(args);
        let args: Vec<_> = args.iter().map(AsRef::as_ref).collect();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// Every file under a directory with its contents.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(root).unwrap().to_owned();
                found.insert(name, fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

/// The one file of a database with this ending.
fn file_of(database: &Path, ending: &str) -> PathBuf {
    let mut found = tree(database).into_keys().filter(|name| {
        let name = name.to_string_lossy();
        name.ends_with(ending) || (ending == "MANIFEST" && name.starts_with(ending))
    });
    let file = found.next().unwrap();
    assert!(found.next().is_none(), "several {ending}");
    database.join(file)
}
