//! Runs the targets on their committed corpus, and on noise.

use std::path::Path;

use super::bases;

/// Inputs of noise for each target.
const NOISE: u64 = 150;

fn on_corpus_and_noise(target: &str, longest: usize, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut inputs = 0;
    for entry in std::fs::read_dir(corpus.join(target)).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        run(&std::fs::read(path).unwrap());
        inputs += 1;
    }
    assert!(inputs >= 10, "hardly a corpus");
    for seed in 0..NOISE {
        println!("{target}, seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut noise = vec![0; rng.usize(..longest)];
        rng.fill(&mut noise);
        run(&noise);
    }
}

#[test]
fn damaged_directories_are_errors_or_what_was_written() {
    on_corpus_and_noise("directory", 30, super::directory);
}

#[test]
fn operations_agree_with_the_model_and_survive_a_crash() {
    on_corpus_and_noise("operations", 200, super::operations);
}

#[cfg(feature = "serve")]
#[test]
fn requests_are_the_same_when_they_are_decoded_again() {
    on_corpus_and_noise("requests", 200, super::requests);
}

#[cfg(feature = "serve")]
#[test]
fn calls_leave_a_sound_node() {
    on_corpus_and_noise("calls", 100, super::calls);
    on_corpus_and_noise("placement", 100, super::placement);
}

/// Noise usually damages too much for anything to open: this flips one place in each file.
#[test]
fn a_byte_flipped_anywhere_is_an_error_or_changes_nothing() {
    const STEP: usize = 97;
    const FLIP: u8 = 2;
    let bases = bases::all().iter().enumerate();
    for (base, files) in bases
        .filter(|(_, b)| b.certified)
        .map(|(n, b)| (n, &b.files))
    {
        for (n, file) in files.iter().enumerate() {
            for at in (base..file.bytes.len()).step_by(STEP) {
                let [low, high] = (at as u16).to_le_bytes();
                super::directory(&[base as u8, 0, FLIP, n as u8, low, high, 0x55]);
            }
        }
    }
}

#[test]
fn all_bases_are_there_and_whole() {
    let bases = bases::all();
    assert_eq!(bases.len(), 6);
    for (n, base) in bases.iter().enumerate() {
        // Without damage everything that a sound database promises must hold.
        super::directory(&[n as u8, 2]);
        let guarded = base.files.iter().filter(|file| !file.pieces.is_empty());
        let at_least = if base.certified { 3 } else { 1 };
        assert!(
            guarded.count() >= at_least,
            "{}: nothing to put right",
            base.name
        );
    }
}

/// Inputs of the corpus name bases by number.
#[test]
fn the_collected_base_is_the_last_and_has_maps_and_holes() {
    let base = bases::all().last().unwrap();
    assert_eq!(base.name, "collected");
    let named = |end: &'static str| base.files.iter().filter(move |f| f.name.ends_with(end));
    assert!(named(".blobmap").count() > 0);
    let is_hole = |block: &[u8]| block.len() == 4096 && block.iter().all(|byte| *byte == 0);
    assert!(named(".blob").any(|file| file.bytes.chunks(4096).any(is_hole)));
}
