//! Every decoder on the committed corpus, and on mutations of it.

use std::fs;
use std::path::PathBuf;

use super::{TARGETS, Target};

/// Mutations of each file of the corpus.
const MUTATIONS: u64 = 300;

/// The committed inputs of a target, by name.
fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
    let dir = PathBuf::from(dir).join(target.name);
    let entries = fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap();
        (path, bytes)
    };
    files.into_iter().map(read).collect()
}

/// Runs a target, and prints the name of the input if it fails.
fn run(target: &Target, input: &[u8], what: impl Fn() -> String) {
    struct Case<F: Fn() -> String>(F);
    impl<F: Fn() -> String> Drop for Case<F> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                println!("{}", (self.0)());
            }
        }
    }
    let _case = Case(what);
    (target.run)(input);
}

fn mutate(input: &[u8], rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + rng.usize(..4) {
        let at = rng.usize(..=bytes.len());
        let len = rng.usize(..=(bytes.len() - at).min(16));
        match rng.u8(..6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(..8),
            1 if at < bytes.len() => bytes[at] = *rng.choice(&[0, 1, 0x7f, 0x80, 0xff]).unwrap(),
            2 => drop(bytes.drain(at..at + len)),
            3 => bytes.truncate(at),
            4 => {
                let copied = bytes[at..at + len].to_vec();
                let to = rng.usize(..=bytes.len());
                bytes.splice(to..to, copied);
            }
            _ => bytes.insert(at, rng.u8(..)),
        }
    }
    bytes
}

#[test]
fn every_decoder_keeps_its_promises_on_its_corpus_and_on_mutations_of_it() {
    for target in TARGETS {
        let corpus = corpus(target);
        assert!(corpus.len() >= 3, "{}: hardly a corpus", target.name);
        for (path, input) in &corpus {
            run(target, input, || path.display().to_string());
        }
        for (path, input) in &corpus {
            for seed in 0..MUTATIONS {
                let mutated = mutate(input, &mut fastrand::Rng::with_seed(seed));
                run(target, &mutated, || {
                    format!("{}, mutation {seed}", path.display())
                });
            }
        }
    }
}

#[test]
fn every_decoder_takes_nothing_and_noise() {
    for target in TARGETS {
        (target.run)(&[]);
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut noise = vec![0; rng.usize(..300)];
            rng.fill(&mut noise);
            run(target, &noise, || format!("{}, seed {seed}", target.name));
        }
    }
}
