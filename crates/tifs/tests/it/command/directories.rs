//! Directories that have something else than a volume.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::{Ended, bytes, make, tifs};

#[test]
fn what_is_no_directory_is_named_so() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    File::create(path("file")).unwrap();
    symlink("nowhere", path("link")).unwrap();
    for command in ["fsck", "dump", "mkfs", "stats"] {
        tifs([command, &path("file")]).failed_with(&["file is no directory"]);
    }
    tifs(["mkfs", &path("link")]).failed_with(&["link is no directory"]);
    tifs(["fsck", &path("none")]).failed_with(&["there is no directory"]);
}

#[test]
fn a_directory_that_may_not_be_read_is_not_said_to_be_empty() {
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    let dir = home.path().join("volume");
    make(&dir);
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
    // Where others can execute it, too. A process of its own writes it: children of other tests
    // could keep a file open that this one writes, and then nobody can execute it.
    let program = home.path().join("tifs");
    let mut copy = Command::new("cp");
    let copied = copy.arg(env!("CARGO_BIN_EXE_tifs")).arg(&program).status();
    assert!(copied.unwrap().success());
    for command in ["fsck", "stats", "mkfs", "dump"] {
        let mut command = {
            let mut run = Command::new(&program);
            run.arg(command).arg(&dir);
            run
        };
        if rustix::process::getuid().is_root() {
            command.uid(65534).gid(65534);
        } else {
            fs::set_permissions(&dir, Permissions::from_mode(0o000)).unwrap();
        }
        Ended::from(command.output().unwrap()).failed_with(&["volume: Permission denied"]);
    }
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_new_directory_is_for_its_owner_alone_and_another_stays_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let (new, empty) = (home.path().join("above/new"), home.path().join("empty"));
    fs::create_dir(&empty).unwrap();
    fs::set_permissions(&empty, Permissions::from_mode(0o750)).unwrap();
    let made = |dir: &Path| {
        let made = tifs(["mkfs", dir.to_str().unwrap()]);
        assert_eq!(made.status, Some(0), "{made:?}");
        dir.metadata().unwrap().permissions().mode() & 0o777
    };
    assert_eq!((made(&new), made(&empty)), (0o700, 0o750));
}

#[test]
fn a_volume_without_its_list_of_files_is_damaged_and_not_missing() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("volume");
    make(&dir);
    fs::remove_file(dir.join("CURRENT")).unwrap();
    let before = bytes(&dir);
    for command in ["fsck", "stats", "mkfs", "dump"] {
        let advice = ["is damaged", "CURRENT", "titan repair"];
        tifs([command, dir.to_str().unwrap()]).failed_with(&advice);
    }
    assert_eq!(bytes(&dir), before);
}

#[test]
fn another_database_is_no_volume_and_stays_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    for family in [None, Some("data")] {
        let dir = home.path().join(family.unwrap_or("other"));
        let mut options = titan::Options::default();
        options.db.create_if_missing = true;
        let db = titan::Db::open(&dir, &options).unwrap();
        if let Some(family) = family {
            db.create_column_family(family, Default::default()).unwrap();
        }
        db.put(b"key", b"value").unwrap();
        db.close().unwrap();
        drop(db);
        let before = bytes(&dir);
        for command in ["fsck", "stats", "dump"] {
            tifs([command, dir.to_str().unwrap()]).failed_with(&["Titan database", "no volume"]);
        }
        tifs(["mkfs", dir.to_str().unwrap()]).failed_with(&["has a volume or database"]);
        assert_eq!(bytes(&dir), before);
    }
}
