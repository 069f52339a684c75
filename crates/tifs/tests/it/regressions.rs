//! Lists of operations that failed once, with what they must survive: `tests/regressions`.

use std::fs;
use std::path::Path;

use tifs_testkit::regression::{Regression, Trial};

/// Replays the files whose trials need no mount.
#[test]
fn what_failed_once_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions");
    let mut replayed = 0;
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let regression: Regression = text
            .parse()
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if regression.trial != Trial::Mounted {
            let passed = regression.run();
            passed.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            replayed += 1;
        }
    }
    assert!(replayed > 0, "nothing in {}", folder.display());
}
