//! Needs of tests that a machine may lack: a program, a feature of the file system.
//!
//! A test that cannot run says so and passes, so that the tests can be run anywhere. Where nothing
//! may be left out, as in continuous integration, the variable [`REQUIRES_ALL`] is set, and such a
//! test fails instead. What a machine cannot have, not even by installing it, is named in
//! [`LACKS`].

use std::fmt::Display;

/// If this environment variable is set, a test whose requirement is missing fails.
pub const REQUIRES_ALL: &str = "TITAN_TEST_REQUIRES_ALL";

/// Needs that a machine lacks for certain: the beginnings of requirements, separated by commas. A
/// test that needs it is skipped, also under [`REQUIRES_ALL`].
pub const LACKS: &str = "TITAN_TEST_LACKS";

/// Whether a missing requirement fails a test.
pub fn all_required() -> bool {
    std::env::var_os(REQUIRES_ALL).is_some()
}

/// Returns what was found. If it is missing, prints `skipped: needs` what, and why it is missing;
/// the test should return.
///
/// ```
/// # use std::process::Command;
/// # use titan_testkit::requirement;
/// let ldb = Command::new("ldb").arg("--version").output();
/// if let Some(output) = requirement::met("ldb (Debian: rocksdb-tools)", ldb) {
///     // The test goes on.
///     drop(output);
/// }
/// ```
///
/// # Panics
/// If it is missing and [`REQUIRES_ALL`] is set, unless [`LACKS`] has it.
#[track_caller]
pub fn met<T, E: Display>(needed: &str, found: Result<T, E>) -> Option<T> {
    let lacks = std::env::var(LACKS).unwrap_or_default();
    judge(needed, found, all_required() && !is_lacked(needed, &lacks))
}

fn is_lacked(needed: &str, lacks: &str) -> bool {
    let mut lacks = lacks.split(',').filter(|lack| !lack.is_empty());
    lacks.any(|lack| needed.starts_with(lack))
}

#[track_caller]
#[expect(clippy::panic, reason = "the failure of a test")]
fn judge<T, E: Display>(needed: &str, found: Result<T, E>, required: bool) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(why) if required => panic!("{REQUIRES_ALL} is set, but this needs {needed}: {why}"),
        Err(why) => {
            println!("skipped: needs {needed}: {why}");
            None
        }
    }
}

/// Debian's package of RocksDB's programs, to be named where one of them is needed.
pub const ROCKSDB_TOOLS: &str = "RocksDB's programs (Debian: rocksdb-tools)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_requirement_skips_or_fails_a_test() {
        assert_eq!(judge::<_, &str>("a disk", Ok(1), true), Some(1));
        assert_eq!(judge::<_, &str>("a disk", Ok(1), false), Some(1));
        assert_eq!(judge::<(), _>("a disk", Err("none"), false), None);
        let failed = std::panic::catch_unwind(|| judge::<(), _>("a disk", Err("none"), true));
        let message = failed.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("a disk: none"), "{message}");
    }

    #[test]
    fn what_a_machine_lacks_is_named_by_its_beginning() {
        assert!(is_lacked("mounts: root", "disks,mounts"));
        assert!(!is_lacked("mounts: root", "disks"));
        assert!(!is_lacked("mounts: root", ""));
    }
}
