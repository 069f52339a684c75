//! The macro `mutant!`, which marks the points at which a bug can be planted.
//!
//! A mutant is a bug that is planted on purpose, to prove that a test catches it; the same means as in the
//! engine. A point names the bug and what follows `cargo test` to run the test; the comment above says
//! what goes wrong. `mutant!` is false unless the crate is built with `--cfg mutants` and the environment
//! variable `TITAN_MUTANT` has the name of the bug. Without the flag nothing of it is in the binary.
//! `cargo xtask mutants` finds the points in the sources and plants one bug after the other.

/// Whether the bug of this name is planted: see the module.
macro_rules! mutant {
    ($name:literal, $test:literal) => {
        $crate::mutants::planted($name)
    };
}

#[cfg(not(mutants))]
#[inline(always)]
pub(crate) const fn planted(_name: &str) -> bool {
    false
}

#[cfg(mutants)]
pub(crate) fn planted(name: &str) -> bool {
    static PLANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let planted = PLANTED.get_or_init(|| std::env::var("TITAN_MUTANT").ok());
    planted.as_deref() == Some(name)
}
