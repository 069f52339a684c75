//! Points at which a bug can be planted on purpose, to prove that a test catches it.
//!
//! Owns the macro `mutant!`, of this crate and of those above it. A point is one line of the code;
//! `mutants.toml` of the crate states the fault there, and the test that must fail:
//!
//! ```text
//! if !mutant!(wal_sync_left_out) {
//!     self.wal.sync()?;
//! }
//! ```
//!
//! Without `--cfg mutants` nothing of it is in the binary. `cargo xtask mutants` plants one bug
//! after the other.

/// Whether the bug of this name is planted: false, unless the crates are built with `--cfg mutants`
/// and the environment variable `TITAN_MUTANT` has the name.
#[doc(hidden)]
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::planted(::std::stringify!($name))
    };
}

/// Function that `mutant!` calls.
#[cfg(not(mutants))]
#[inline(always)]
pub const fn planted(_name: &str) -> bool {
    false
}

/// Function that `mutant!` calls. Cost: the first call reads the environment.
#[cfg(mutants)]
pub fn planted(name: &str) -> bool {
    static PLANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let planted = PLANTED.get_or_init(|| std::env::var("TITAN_MUTANT").ok());
    planted.as_deref() == Some(name)
}
