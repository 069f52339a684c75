//! Writes `directories/`, small databases to be damaged, and the part of `corpus/` that is cut out
//! of real files: `seed-*`. Other files of the corpus, which are inputs that once failed, stay.
//!
//! `cargo xtask fuzz --seeds` runs it. Its output differs a little each time, as databases have an
//! identity and times.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use titan_campaigns::fuzz::{self, bases};

/// The most inputs of a target, and the most bytes of one and of all of them.
const FILES: usize = 24;
const LARGEST: usize = 4096;
const TOTAL: usize = 16 << 10;
/// The inputs of whole databases come from a generator of their own.
const RANDOM: [(&str, std::ops::Range<usize>); 2] = [("directory", 4..30), ("operations", 30..160)];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directories = root.join("directories");
    if directories.exists() {
        fs::remove_dir_all(&directories)?;
    }
    bases::create(&directories)?;
    let mut found: BTreeMap<&str, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for parent in [directories, root.join("../crates/titan/tests/fixtures")] {
        for entry in fs::read_dir(parent)? {
            let dir = entry?.path();
            if dir.is_dir() {
                cut(&dir, &mut found)?;
            }
        }
    }
    let mut rng = fastrand::Rng::with_seed(1);
    for (target, lengths) in RANDOM {
        for n in 0..FILES {
            let mut bytes = vec![0; rng.usize(lengths.clone())];
            rng.fill(&mut bytes);
            bytes[0] = n as u8;
            found.entry(target).or_default().insert(bytes);
        }
    }
    for target in ["requests", "calls", "placement"] {
        found.insert(target, fuzz::seeds(target));
    }
    for (target, inputs) in found {
        keep(&root.join("corpus").join(target), inputs)?;
    }
    Ok(())
}

/// Cuts the files of a database into inputs.
fn cut(dir: &Path, found: &mut BTreeMap<&str, BTreeSet<Vec<u8>>>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // Databases that are refused are in a separate directory.
        if entry.path().is_dir() {
            continue;
        }
        let name = entry.file_name();
        let bytes = fs::read(entry.path())?;
        for (target, input) in titan_tools::fuzzing::seeds(&name.to_string_lossy(), &bytes) {
            if input.len() <= LARGEST {
                found.entry(target).or_default().insert(input);
            }
        }
    }
    Ok(())
}

/// Writes some of the inputs, of all lengths.
fn keep(dir: &Path, inputs: BTreeSet<Vec<u8>>) -> Result<()> {
    fs::create_dir_all(dir)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("seed-") {
            fs::remove_file(entry.path())?;
        }
    }
    let mut inputs: Vec<_> = inputs.into_iter().collect();
    inputs.sort_by_key(Vec::len);
    let step = inputs.len().div_ceil(FILES).max(1);
    let mut total = 0;
    for (n, input) in inputs.iter().step_by(step).enumerate() {
        total += input.len();
        if n >= 3 && total > TOTAL {
            break;
        }
        fs::write(dir.join(format!("seed-{n:02}")), input)?;
    }
    Ok(())
}
