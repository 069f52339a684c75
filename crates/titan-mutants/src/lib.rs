//! The macro [`mutant!`], which marks the points at which a bug can be planted.
//!
//! A mutant is a bug that is planted on purpose, to prove that a test catches it. The point is one
//! line of the code; `mutants.toml` of the crate says what goes wrong there, and which test must
//! fail:
//!
//! ```text
//! if !mutant!(wal_sync_left_out) {
//!     self.wal.sync()?;
//! }
//! ```
//!
//! `mutant!` is false unless the crates are built with `--cfg mutants` and the environment variable
//! `TITAN_MUTANT` has the name of this bug. Without the flag nothing of it is in the binary.
//! `cargo xtask mutants` plants one bug after the other.

/// Whether the bug of this name is planted: see the crate.
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        $crate::planted(stringify!($name))
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
