//! Names, renaming, listing.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::{Errno, Result};

use super::create;
use crate::places::Volume;

fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>, flags: RenameFlags) -> Result<()> {
    renameat_with(CWD, from.as_ref(), CWD, to.as_ref(), flags)
}

fn errno<T>(result: std::io::Result<T>) -> Option<Errno> {
    let code = result.err()?.raw_os_error()?;
    Some(Errno::from_raw_os_error(code))
}

#[test]
fn two_names_change_places() {
    Volume::with(|volume| {
        let (file, directory) = (volume.join("f"), volume.join("d"));
        fs::write(&file, "file").unwrap();
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("inner"), "inner").unwrap();
        rename(&file, &directory, RenameFlags::EXCHANGE).unwrap();
        assert_eq!(fs::read(&directory).unwrap(), b"file");
        assert_eq!(fs::read(file.join("inner")).unwrap(), b"inner");
        let missing = rename(&file, volume.join("none"), RenameFlags::EXCHANGE);
        assert_eq!(missing, Err(Errno::NOENT));
    });
}

#[test]
fn a_name_that_exists_is_not_replaced_if_told_so() {
    Volume::with(|volume| {
        let (from, to) = (volume.join("from"), volume.join("to"));
        fs::write(&from, "from").unwrap();
        fs::write(&to, "to").unwrap();
        assert_eq!(
            rename(&from, &to, RenameFlags::NOREPLACE),
            Err(Errno::EXIST)
        );
        assert_eq!(fs::read(&from).unwrap(), b"from");
        assert_eq!(fs::read(&to).unwrap(), b"to");
        rename(&from, volume.join("new"), RenameFlags::NOREPLACE).unwrap();
        assert!(!from.exists());
    });
}

#[test]
fn a_whiteout_takes_the_place_of_a_renamed_file() {
    Volume::with(|volume| {
        let (from, to) = (volume.join("from"), volume.join("to"));
        fs::write(&from, "content").unwrap();
        rename(&from, &to, RenameFlags::WHITEOUT).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"content");
        let whiteout = fs::symlink_metadata(&from).unwrap();
        assert_eq!(
            (whiteout.mode() & 0o170_000, whiteout.rdev()),
            (0o020_000, 0)
        );
    });
}

#[test]
fn a_replaced_file_remains_usable_while_it_is_open() {
    Volume::with(|volume| {
        fs::write(volume.join("old"), "old").unwrap();
        fs::write(volume.join("new"), "new").unwrap();
        let old = File::open(volume.join("old")).unwrap();
        fs::rename(volume.join("new"), volume.join("old")).unwrap();
        assert_eq!(fs::read(volume.join("old")).unwrap(), b"new");
        let mut read = [0; 3];
        old.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"old");
        assert_eq!(old.metadata().unwrap().nlink(), 0);
    });
}

#[test]
fn a_directory_replaces_only_an_empty_one_and_never_its_own() {
    Volume::with(|volume| {
        for directory in ["full", "empty", "above/below"] {
            fs::create_dir_all(volume.join(directory)).unwrap();
        }
        fs::write(volume.join("full/f"), "").unwrap();
        let to_full = fs::rename(volume.join("empty"), volume.join("full"));
        assert_eq!(errno(to_full), Some(Errno::NOTEMPTY));
        let into_itself = fs::rename(volume.join("above"), volume.join("above/below/x"));
        assert_eq!(errno(into_itself), Some(Errno::INVAL));
        fs::rename(volume.join("full"), volume.join("empty")).unwrap();
        assert!(volume.join("empty/f").exists());
        // Each of the two directories in the root counts as a link, besides its name and its dot.
        assert_eq!(fs::metadata(volume.path()).unwrap().nlink(), 2 + 2);
    });
}

#[test]
fn names_are_any_bytes() {
    Volume::with(|volume| {
        let names = [b"\xff\xfe".as_slice(), b"\xc3", b"new\nline", b"\\", b" "];
        for name in names {
            create(volume.join(OsStr::from_bytes(name)));
        }
        let listed: BTreeSet<OsString> = fs::read_dir(volume.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        let expected = names.map(|name| OsStr::from_bytes(name).to_owned());
        assert_eq!(listed, expected.into());
    });
}

#[test]
fn names_have_up_to_255_bytes() {
    Volume::with(|volume| {
        create(volume.join("n".repeat(255)));
        let longer = File::create(volume.join("n".repeat(256)));
        assert_eq!(errno(longer), Some(Errno::NAMETOOLONG));
        let capacity = rustix::fs::statvfs(volume.path()).unwrap();
        assert_eq!(capacity.f_namemax, 255);
    });
}

#[test]
fn a_symbolic_link_has_up_to_4095_bytes() {
    Volume::with(|volume| {
        let longest = "t".repeat(4095);
        symlink(&longest, volume.join("link")).unwrap();
        let target = fs::read_link(volume.join("link")).unwrap();
        assert_eq!(target, Path::new(&longest));
        let longer = symlink("t".repeat(4096), volume.join("longer"));
        assert_eq!(errno(longer), Some(Errno::NAMETOOLONG));
    });
}

#[test]
fn a_listing_shows_each_name_once_while_others_go() {
    Volume::with(|volume| {
        let name = |i: usize| format!("name-{i:05}");
        const NAMES: usize = 3000;
        for i in 0..NAMES {
            create(volume.join(name(i)));
        }
        let mut listed = Vec::new();
        for (read, entry) in fs::read_dir(volume.path()).unwrap().enumerate() {
            let entry = entry.unwrap().file_name().into_string().unwrap();
            // What was listed goes, and something is added behind the place that was reached.
            fs::remove_file(volume.join(&entry)).unwrap();
            if read < 100 {
                create(volume.join(format!("added-{read}")));
            }
            listed.push(entry);
        }
        let kept: Vec<_> = listed.iter().filter(|n| n.starts_with("name-")).collect();
        assert_eq!(kept.len(), NAMES);
        assert_eq!(kept.iter().collect::<BTreeSet<_>>().len(), NAMES);
    });
}

#[test]
fn a_file_has_several_names() {
    Volume::with(|volume| {
        fs::write(volume.join("one"), "content").unwrap();
        fs::create_dir(volume.join("d")).unwrap();
        fs::hard_link(volume.join("one"), volume.join("d/two")).unwrap();
        let (one, two) = (volume.join("one"), volume.join("d/two"));
        let (first, second) = (fs::metadata(&one).unwrap(), fs::metadata(&two).unwrap());
        assert_eq!((first.ino(), first.nlink()), (second.ino(), 2));
        fs::remove_file(one).unwrap();
        assert_eq!(fs::read(&two).unwrap(), b"content");
        assert_eq!(fs::metadata(two).unwrap().nlink(), 1);
    });
}
