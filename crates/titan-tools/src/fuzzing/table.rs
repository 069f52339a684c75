//! Takes a table of any bytes apart.

use std::ops::ControlFlow;
use std::path::Path;

use titan::internals::format::ChecksumType;
use titan::internals::table::FOOTER_LEN;
use titan::internals::vfs::MemoryFile;

use crate::forensics::dissect::dissect;

/// A whole table, taken apart as it is, and as if its footer said that there are no checksums.
///
/// # Panics
/// If the walk over its parts ends early.
pub fn table(data: &[u8]) {
    let mut unchecked = data.to_vec();
    // The first byte of a footer says which checksums there are.
    if let Some(at) = unchecked.len().checked_sub(FOOTER_LEN) {
        unchecked[at] = ChecksumType::None as u8;
    }
    for bytes in [data.to_vec(), unchecked] {
        let file = MemoryFile::open(bytes);
        let path = Path::new("/db/000009.sst");
        let walk = dissect(file, path, &mut |_, _| ControlFlow::Continue(()));
        assert!(walk.is_continue(), "the walk ends before the file");
    }
}

#[cfg(test)]
#[cfg(workspace)]
mod tests {
    use super::*;

    /// The corpus of the fuzz target, each file also cut short and with one byte changed.
    #[test]
    fn every_table_of_the_corpus_is_taken_apart() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/table");
        let mut files = 0;
        for file in std::fs::read_dir(corpus).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            files += 1;
            table(&bytes);
            for seed in 0..300 {
                let mut rng = fastrand::Rng::with_seed(seed);
                let mut changed = bytes.clone();
                if changed.is_empty() {
                    continue;
                }
                let at = rng.usize(..changed.len());
                match rng.bool() {
                    true => changed.truncate(at),
                    false => changed[at] = rng.u8(..),
                }
                table(&changed);
            }
        }
        assert!(files >= 3, "hardly a corpus");
    }
}
