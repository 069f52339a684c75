//! Mounts of a directory of a volume.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::tifs;
use crate::places::Volume;

#[test]
fn a_directory_of_a_volume_is_mounted_alone() {
    Volume::with(|volume| {
        fs::create_dir_all(volume.join("home/ada/letters")).unwrap();
        fs::write(volume.join("home/ada/letters/one"), "dear").unwrap();
        fs::write(volume.join("secret"), "secret").unwrap();
        volume.unmount();
        volume.set_options("subdir=home/ada");
        volume.mount();
        let names = |path| {
            let entries = fs::read_dir(volume.join(path)).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(""), ["letters"]);
        assert_eq!(fs::read(volume.join("letters/one")).unwrap(), b"dear");
        fs::create_dir(volume.join("new")).unwrap();
        fs::rename(volume.join("letters/one"), volume.join("two")).unwrap();
        fs::write(volume.join("two"), "changed").unwrap();
        let root = fs::metadata(volume.path()).unwrap();
        assert_eq!((root.nlink(), root.is_dir()), (4, true));
        let (of_mount, _) = volume.accounts();
        volume.unmount();
        volume.check();
        volume.set_options("");
        volume.mount();
        assert_eq!(fs::read(volume.join("home/ada/two")).unwrap(), b"changed");
        assert!(volume.join("home/ada/new").is_dir());
        assert_eq!(fs::read(volume.join("secret")).unwrap(), b"secret");
        assert_eq!(volume.accounts().0, of_mount);
    });
}

#[test]
fn what_is_no_directory_of_the_volume_is_not_mounted() {
    Volume::with(|volume| {
        fs::write(volume.join("file"), "").unwrap();
        volume.unmount();
        let (store, place) = (volume.store(), volume.path());
        let mount = |option| {
            let (store, place) = (store.to_str().unwrap(), place.to_str().unwrap());
            tifs(["mount", store, place, "-o", option])
        };
        mount("subdir=none").failed_with(&["there is no directory none"]);
        mount("subdir=file").failed_with(&["file is no directory"]);
        mount("subdir=").failed_with(&["subdir needs a value"]);
        mount("subdir=..").failed_with(&["subdir=..", "has no .."]);
        assert!(!volume.is_mounted());
        volume.check();
    });
}
