//! The macro [`mutant!`], which marks the points at which a bug can be planted.
//!
//! A mutant is a bug that is planted on purpose, to prove that a test catches it. A point names the
//! bug and what follows `cargo test` to run that test; the comment above says what goes wrong:
//!
//! ```text
//! // MUTANT: a synced write is acknowledged without a sync of the WAL.
//! if !mutant!("wal-sync-left-out", "-p titan-campaigns --test it crash::") {
//!     self.wal.sync()?;
//! }
//! ```
//!
//! `mutant!` is false unless the crates are built with `--cfg mutants` and the environment variable
//! `TITAN_MUTANT` has the name of this bug. Without the flag nothing of it is in the binary.
//! `cargo xtask mutants` finds the points in the sources and plants one bug after the other.

/// Whether the bug of this name is planted: see the crate.
#[macro_export]
macro_rules! mutant {
    ($name:literal, $test:literal) => {
        $crate::planted($name)
    };
}

/// Function that [`mutant!`] calls.
#[cfg(not(mutants))]
#[inline(always)]
pub const fn planted(_name: &str) -> bool {
    false
}

/// Function that [`mutant!`] calls. Cost: the first call reads the environment.
#[cfg(mutants)]
pub fn planted(name: &str) -> bool {
    static PLANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let planted = PLANTED.get_or_init(|| std::env::var("TITAN_MUTANT").ok());
    planted.as_deref() == Some(name)
}
