//! Places in directories, file handles, and what the kernel keeps of listings.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{RawDir, SeekFrom, seek};
use rustix::io::Errno;

use crate::places::{Handle, Volume};

const NAMES: usize = 2000;

/// Names, each with the place after it, from a place on: one buffer of 4 KiB.
fn piece(directory: &File, from: u64) -> Vec<(Vec<u8>, u64)> {
    seek(directory, SeekFrom::Start(from)).unwrap();
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut found = Vec::new();
    loop {
        let entry = entries.next().map(|entry| {
            let entry = entry.unwrap();
            (
                entry.file_name().to_bytes().to_vec(),
                entry.next_entry_cookie(),
            )
        });
        found.extend(entry);
        if entries.is_buffer_empty() {
            return found;
        }
    }
}

fn directory_of_many(volume: &Volume) -> std::path::PathBuf {
    let directory = volume.join("many");
    fs::create_dir(&directory).unwrap();
    for number in 0..NAMES {
        File::create(directory.join(format!("{number:06}"))).unwrap();
    }
    directory
}

#[test]
fn a_directory_is_read_in_pieces_by_those_who_open_it_anew_each_time() {
    Volume::with(|volume| {
        let directory = directory_of_many(volume);
        let mut names = Vec::new();
        let mut place = 0;
        let mut pieces = 0;
        loop {
            let found = piece(&File::open(&directory).unwrap(), place);
            let Some((last, next)) = found.last() else {
                break;
            };
            place = *next;
            pieces += 1;
            // Now and then the last name that was seen goes, and another comes. Once everything is
            // forgotten.
            if pieces % 3 == 0 {
                fs::remove_file(directory.join(std::ffi::OsStr::from_bytes(last))).unwrap();
                File::create(directory.join(format!("new-{pieces}"))).unwrap();
            } else if pieces == 10 {
                volume.unmount();
                volume.mount();
            }
            names.extend(found.into_iter().map(|(name, _)| name));
        }
        assert!(pieces > 10);
        let all: BTreeSet<_> = names.iter().collect();
        assert_eq!(all.len(), names.len(), "a name was there twice");
        let expected = (0..NAMES).map(|number| format!("{number:06}").into_bytes());
        for name in expected {
            assert!(all.contains(&name), "{}", String::from_utf8_lossy(&name));
        }
    });
}

#[test]
fn a_place_that_is_kept_is_found_again_after_a_rewind() {
    Volume::with(|volume| {
        let directory = directory_of_many(volume);
        let opened = File::open(&directory).unwrap();
        let mut all = Vec::new();
        let mut place = 0;
        loop {
            let found = piece(&opened, place);
            let Some((_, next)) = found.last() else { break };
            place = *next;
            all.extend(found);
        }
        assert_eq!(all.len(), NAMES + 2);
        for which in [NAMES - 10, 3, 1000, 1] {
            piece(&opened, 0);
            assert_eq!(piece(&opened, all[which].1)[0], all[which + 1]);
        }
    });
}

#[test]
fn a_file_handle_opens_its_file_as_long_as_that_exists() {
    Volume::with(|volume| {
        fs::create_dir_all(volume.join("a/b")).unwrap();
        fs::write(volume.join("a/b/file"), "content").unwrap();
        let mut file = Handle::of(&volume.join("a/b/file"));
        let mut directory = Handle::of(&volume.join("a/b"));
        let read = |opened: std::io::Result<File>| {
            let mut content = String::new();
            opened?.read_to_string(&mut content)?;
            Ok::<_, std::io::Error>(content)
        };
        for _ in 0..2 {
            assert_eq!(read(file.open(&volume.path())).unwrap(), "content");
            assert!(
                directory
                    .open(&volume.path())
                    .unwrap()
                    .metadata()
                    .unwrap()
                    .is_dir()
            );
            // The kernel forgets everything.
            volume.unmount();
            volume.mount();
        }
        fs::rename(volume.join("a/b/file"), volume.join("moved")).unwrap();
        volume.unmount();
        volume.mount();
        assert_eq!(read(file.open(&volume.path())).unwrap(), "content");
        fs::remove_file(volume.join("moved")).unwrap();
        volume.unmount();
        volume.mount();
        let gone = file.open(&volume.path()).unwrap_err().raw_os_error();
        assert_eq!(gone, Some(Errno::STALE.raw_os_error()));
    });
}

#[test]
fn a_file_handle_leads_to_nothing_outside_of_a_subdirectory() {
    Volume::with(|volume| {
        fs::create_dir_all(volume.join("inside/deep")).unwrap();
        fs::write(volume.join("inside/deep/file"), "inside").unwrap();
        fs::write(volume.join("secret"), "outside").unwrap();
        let mut inside = Handle::of(&volume.join("inside/deep/file"));
        let mut outside = Handle::of(&volume.join("secret"));
        let mut root = Handle::of(&volume.join("inside"));
        volume.unmount();
        volume.set_options("subdir=inside");
        volume.mount();
        assert!(inside.open(&volume.path()).is_ok());
        // The directory that is mounted has another number now.
        for handle in [&mut outside, &mut root] {
            let refused = handle.open(&volume.path()).unwrap_err().raw_os_error();
            assert_eq!(refused, Some(Errno::STALE.raw_os_error()));
        }
    });
}

/// The names and sizes of everything below a directory.
fn walk(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let size = |entry: fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => 1 + walk(&entry.path()),
        false => 1 + entry.metadata().unwrap().len(),
    };
    entries.map(size).sum()
}

#[test]
fn a_tree_that_was_looked_at_is_looked_at_again_without_a_request() {
    Volume::with(|volume| {
        for directory in 0..50 {
            let directory = volume.join(format!("d{directory}"));
            fs::create_dir(&directory).unwrap();
            for file in 0..5 {
                fs::write(directory.join(format!("f{file}")), "content").unwrap();
            }
        }
        volume.unmount();
        volume.mount();
        let requests = |volume: &Volume| -> u64 {
            let all = ["lookup", "attributes", "list", "list_with_attributes"];
            all.iter().map(|operation| volume.count_of(operation)).sum()
        };
        let walked = walk(&volume.path());
        // The kernel learns about each file once, in one way or another.
        assert_eq!(walk(&volume.path()), walked);
        let before = requests(volume);
        assert_eq!(walk(&volume.path()), walked);
        assert_eq!(requests(volume), before);
        // What changes is seen.
        File::create(volume.join("d7/new")).unwrap();
        fs::remove_file(volume.join("d8/f1")).unwrap();
        fs::rename(volume.join("d9/f1"), volume.join("d10/moved")).unwrap();
        assert_eq!(walk(&volume.path()), walked + 1 - 8);
        let listed = fs::read_dir(volume.join("d10")).unwrap();
        assert_eq!(listed.count(), 6);
    });
}
