//! The content of files, and the space that it takes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

use rustix::fs::{FallocateFlags, OFlags, SeekFrom as Find, copy_file_range, fallocate, seek};
use rustix::io::Errno;
use titan_testkit::requirement;

use super::{allocated, create};
use crate::places::Volume;
use tifs_testkit::system::Mapping;

const MIB: u64 = 1 << 20;

/// The content of a file, read past the kernel's cache.
fn stored(file: &File) -> Vec<u8> {
    file.sync_all().unwrap();
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let mut content = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut content, 0).unwrap();
    content
}

#[test]
fn a_truncated_file_grows_with_zeros() {
    Volume::with(|volume| {
        let file = create(volume.join("f"));
        file.write_all_at(&vec![1; 300_000], 0).unwrap();
        file.sync_all().unwrap();
        file.set_len(70_001).unwrap();
        file.set_len(300_000).unwrap();
        let content = stored(&file);
        assert!(content[..70_001].iter().all(|&byte| byte == 1));
        assert!(content[70_001..].iter().all(|&byte| byte == 0));
    });
}

#[test]
fn a_small_truncated_file_grows_with_zeros() {
    Volume::with(|volume| {
        let file = create(volume.join("f"));
        file.write_all_at(b"content", 0).unwrap();
        file.sync_all().unwrap();
        file.set_len(3).unwrap();
        file.set_len(7).unwrap();
        assert_eq!(stored(&file), b"con\0\0\0\0");
        file.set_len(10_000).unwrap();
        assert!(stored(&file)[3..].iter().all(|&byte| byte == 0));
    });
}

#[test]
fn a_sparse_file_takes_only_what_was_written() {
    Volume::with(|volume| {
        let file = create(volume.join("f"));
        file.write_all_at(b"end", 1 << 40).unwrap();
        assert_eq!(file.metadata().unwrap().len(), (1 << 40) + 3);
        assert!(allocated(&file) <= 64 << 10);
        let mut between = [1; 4096];
        file.read_exact_at(&mut between, 1 << 39).unwrap();
        assert_eq!(between, [0; 4096]);
    });
}

#[test]
fn a_file_is_as_long_as_the_kernel_allows() {
    Volume::with(|volume| {
        const LONGEST: u64 = i64::MAX as u64;
        let path = volume.join("f");
        let file = create(&path);
        file.write_all_at(b"end", LONGEST - 3).unwrap();
        // At once, not when the kernel writes its cache.
        let refused = file.write_all_at(b"x", LONGEST).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().len(), LONGEST);
        drop(file);
        volume.unmount();
        volume.check();
        volume.mount();
        let file = File::options().write(true).read(true).open(path).unwrap();
        let mut end = [1; 5];
        file.read_exact_at(&mut end, LONGEST - 5).unwrap();
        assert_eq!(&end, b"\0\0end");
        file.set_len(LONGEST - 1).unwrap();
        file.set_len(0).unwrap();
        assert_eq!(allocated(&file), 0);
    });
}

#[test]
fn the_kernel_reads_far_ahead() {
    Volume::with(|volume| {
        let device = rustix::fs::stat(volume.path()).unwrap().st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        let kib = requirement::met("mounts: sysfs", std::fs::read_to_string(setting));
        assert_eq!(kib.as_deref().map(str::trim).unwrap_or("2048"), "2048");
    });
}

#[test]
fn data_and_holes_are_found() {
    Volume::with(|volume| {
        let file = create(volume.join("f"));
        file.write_all_at(&[1; 4096], MIB).unwrap();
        file.set_len(4 * MIB).unwrap();
        // Before and after the data is written to the volume.
        for _ in 0..2 {
            let data = seek(&file, Find::Data(0)).unwrap();
            assert!(data <= MIB && data > MIB - (64 << 10), "{data}");
            let hole = seek(&file, Find::Hole(MIB)).unwrap();
            assert!((MIB + 4096..=MIB + (64 << 10)).contains(&hole), "{hole}");
            assert_eq!(seek(&file, Find::Hole(3 * MIB)).unwrap(), 3 * MIB);
            assert_eq!(seek(&file, Find::Data(3 * MIB)), Err(Errno::NXIO));
            file.sync_all().unwrap();
        }
    });
}

#[test]
fn a_punched_hole_is_zeros_and_takes_nothing() {
    Volume::with(|volume| {
        let file = create(volume.join("f"));
        file.write_all_at(&vec![1; MIB as usize], 0).unwrap();
        assert_eq!(allocated(&file), MIB);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, punch, 1000, MIB / 2).unwrap();
        assert!(allocated(&file) <= MIB / 2 + (64 << 10));
        let (content, end) = (stored(&file), 1000 + MIB as usize / 2);
        assert_eq!(content.len(), MIB as usize);
        assert!(content[..1000].iter().all(|&byte| byte == 1));
        assert!(content[1000..end].iter().all(|&byte| byte == 0));
        assert!(content[end..].iter().all(|&byte| byte == 1));
    });
}

#[test]
fn a_zeroed_range_is_zeros() {
    Volume::with(|volume| {
        let file = create(volume.join("f"));
        file.write_all_at(&[1; 100_000], 0).unwrap();
        let keep = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, keep, 90_000, 50_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 100_000);
        fallocate(&file, FallocateFlags::ZERO_RANGE, 95_000, 50_000).unwrap();
        let content = stored(&file);
        assert_eq!(content.len(), 145_000);
        assert!(content[..90_000].iter().all(|&byte| byte == 1));
        assert!(content[90_000..].iter().all(|&byte| byte == 0));
    });
}

#[test]
fn an_allocation_keeps_the_content_and_the_size_if_told_to() {
    Volume::with(|volume| {
        let file = create(volume.join("f"));
        file.write_all_at(b"content", 0).unwrap();
        fallocate(&file, FallocateFlags::KEEP_SIZE, 0, MIB).unwrap();
        assert_eq!(stored(&file), b"content");
        fallocate(&file, FallocateFlags::empty(), 0, MIB).unwrap();
        let content = stored(&file);
        assert_eq!(content.len(), MIB as usize);
        assert!(content.starts_with(b"content") && content[7..].iter().all(|&byte| byte == 0));
    });
}

#[test]
fn an_allocation_of_an_unknown_kind_fails_and_changes_nothing() {
    Volume::with(|volume| {
        let file = create(volume.join("f"));
        file.write_all_at(&[1; 200_000], 0).unwrap();
        for flags in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
            let result = fallocate(&file, flags, 65_536, 65_536);
            assert_eq!(result, Err(Errno::OPNOTSUPP));
        }
        assert_eq!(stored(&file), [1; 200_000]);
    });
}

#[test]
fn a_range_is_copied_with_its_holes() {
    Volume::with(|volume| {
        let (from, to) = (create(volume.join("from")), create(volume.join("to")));
        from.write_all_at(&[1; 100_000], 0).unwrap();
        from.write_all_at(&[2; 100_000], MIB).unwrap();
        to.write_all_at(&[3; 200_000], 0).unwrap();
        let (mut from_at, mut to_at, end) = (50_000, 7, MIB + 100_000);
        while from_at < end {
            let rest = (end - from_at) as usize;
            let copied =
                copy_file_range(&from, Some(&mut from_at), &to, Some(&mut to_at), rest).unwrap();
            assert!(copied > 0);
        }
        let (source, mut expected) = (stored(&from), vec![3; 7]);
        expected.extend(&source[50_000..]);
        assert!(stored(&to) == expected);
    });
}

#[test]
fn appends_by_two_handles_follow_one_another() {
    Volume::with(|volume| {
        let open = || {
            let mut options = File::options();
            options.append(true).create(true);
            options.open(volume.join("f")).unwrap()
        };
        let (mut one, mut two) = (open(), open());
        for _ in 0..3 {
            one.write_all(b"1").unwrap();
            two.write_all(b"2").unwrap();
        }
        assert_eq!(std::fs::read(volume.join("f")).unwrap(), b"121212");
    });
}

#[test]
fn a_file_without_names_can_be_used_until_it_is_closed() {
    Volume::with(|volume| {
        let mut file = create(volume.join("f"));
        file.write_all(b"before").unwrap();
        std::fs::remove_file(volume.join("f")).unwrap();
        file.write_all(b" and after").unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        assert_eq!(content, "before and after");
    });
}

#[test]
fn what_is_written_to_a_mapping_is_in_the_file() {
    Volume::with(|volume| {
        let file = create(volume.join("f"));
        file.set_len(100_000).unwrap();
        let mut mapping = Mapping::new(&file, 100_000).unwrap();
        mapping.write(70_000, b"mapped");
        let mut read = [0; 6];
        file.read_exact_at(&mut read, 70_000).unwrap();
        assert_eq!(&read, b"mapped");
        file.write_all_at(b"written", 10).unwrap();
        assert_eq!(mapping.read(10, 7), b"written");
        mapping.sync().unwrap();
        drop((mapping, file));
        volume.kill();
        volume.mount();
        let content = std::fs::read(volume.join("f")).unwrap();
        assert_eq!(&content[70_000..70_006], b"mapped");
        assert_eq!(&content[10..17], b"written");
    });
}

#[test]
fn direct_and_cached_accesses_see_each_other() {
    Volume::with(|volume| {
        let cached = create(volume.join("f"));
        let mut options = File::options();
        options.read(true).write(true);
        options.custom_flags(OFlags::DIRECT.bits() as i32);
        let direct = options.open(volume.join("f")).unwrap();
        cached.write_all_at(&[1; 10_000], 0).unwrap();
        let mut read = [0; 10_000];
        direct.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(read, [1; 10_000]);
        direct.write_all_at(&[2; 5000], 777).unwrap();
        cached.read_exact_at(&mut read, 0).unwrap();
        assert!(read[..777].iter().all(|&byte| byte == 1));
        assert!(read[777..5777].iter().all(|&byte| byte == 2));
        assert!(read[5777..].iter().all(|&byte| byte == 1));
    });
}
