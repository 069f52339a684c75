//! Statements that hold unless the engine has a bug, checked at changes of state.
//!
//! Development, campaign and fuzz builds check them and panic where one is false: a bug shows where
//! it is made, not where its damage is found. A release build does not panic. It evaluates only
//! those statements that are marked `durable`, and returns an error where one is false.
//! `docs/adr/0080-invariants.md` has the reasons.

use std::fmt;

use crate::error::Error;

/// Whether this build checks every invariant.
pub const CHECKED: bool = cfg!(any(debug_assertions, fuzzing));

/// Whether the MANIFEST is compared with the versions in memory after every edit.
#[cfg(any(debug_assertions, fuzzing))]
static COMPARES: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Lets every database of this process compare its MANIFEST with its versions after every edit, if
/// this build checks invariants. Cost for each edit: a read of the whole MANIFEST.
pub fn compare_manifests() {
    #[cfg(any(debug_assertions, fuzzing))]
    COMPARES.store(true, std::sync::atomic::Ordering::Relaxed);
}

#[cfg(any(debug_assertions, fuzzing))]
pub(crate) fn compares_manifests() -> bool {
    COMPARES.load(std::sync::atomic::Ordering::Relaxed)
}

/// States a condition that holds unless there is a bug.
///
/// - `invariant!(condition, "text {values}")` is a statement. Where invariants are checked it
///   panics if the condition is false. In a release build it is nothing: the condition is not
///   evaluated.
/// - `invariant!(durable: condition, "text {values}")?` stands before a step after which a wrong
///   state would be in a file. It panics as the first form does. In a release build it evaluates
///   the condition, and gives an error of kind `Internal` if it is false. The caller must let that
///   error stop writes. The condition must be cheap.
///
/// The text states the violation, and its values.
#[doc(hidden)]
#[macro_export]
macro_rules! invariant {
    (durable: $holds:expr, $($text:tt)+) => {
        if $holds {
            ::std::result::Result::Ok(())
        } else {
            ::std::result::Result::Err($crate::invariants::refuse(::std::format_args!($($text)+)))
        }
    };
    ($holds:expr, $($text:tt)+) => {
        if $crate::invariants::CHECKED && !$holds {
            $crate::invariants::fail(::std::format_args!($($text)+));
        }
    };
}

/// Panics with the text and the place of the invariant.
#[cold]
#[track_caller]
#[expect(
    clippy::panic,
    reason = "builds that check invariants show bugs where they are made"
)]
pub fn fail(text: fmt::Arguments<'_>) -> ! {
    panic!("invariant: {text}")
}

/// The error of a durable invariant; panics where invariants are checked.
#[cold]
#[track_caller]
pub fn refuse(text: fmt::Arguments<'_>) -> Error {
    if CHECKED {
        fail(text);
    }
    Error::internal(format!(
        "an invariant does not hold, which is a bug: {text}"
    ))
}

#[cfg(test)]
mod tests {
    use crate::error::{ErrorKind, Result};
    use crate::panics::contain;

    fn durable(number: u32) -> Result<u32> {
        invariant!(durable: number != 7, "the number is {number}")?;
        Ok(number)
    }

    #[test]
    fn what_is_false_panics_or_is_an_error_by_the_build() {
        let plain = contain(|| invariant!(1 + 1 == 3, "{} is odd", 2));
        let durable = contain(|| durable(7));
        if super::CHECKED {
            let said = plain.unwrap_err().to_string();
            assert_eq!(said, "panicked (invariant: 2 is odd)");
            let said = durable.unwrap_err().to_string();
            assert_eq!(said, "panicked (invariant: the number is 7)");
        } else {
            plain.unwrap();
            let error = durable.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Internal);
            assert!(error.to_string().contains("the number is 7"), "{error}");
        }
    }

    #[test]
    fn what_is_true_is_nothing() {
        invariant!(1 + 1 == 2, "arithmetic");
        assert_eq!(durable(6).unwrap(), 6);
    }
}
