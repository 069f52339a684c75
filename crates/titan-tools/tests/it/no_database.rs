//! A path without a database is refused before anything is done.

use titan::{ErrorKind, Options};
use titan_tools::{RepairTo, check, plan_downgrade, repair};

#[test]
fn a_file_is_not_taken_for_a_directory() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("notes.txt");
    std::fs::write(&file, "no database").unwrap();
    let options = Options::default();
    for path in [file.clone(), file.join("db")] {
        let to = RepairTo::Directory(place.path().join("repaired"));
        for error in [
            check(&path, &options, &mut |_| {}).err(),
            repair(&path, &to, &options, &mut |_| {}).err(),
            plan_downgrade(&path, &options).err(),
        ] {
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.message().contains("was expected"), "{error}");
        }
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"no database");
}
