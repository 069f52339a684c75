//! Calls of the application's code: merge operators, prefix extractors, filters, collectors,
//! partitioners, hooks and listeners. It may panic.
//!
//! Promises that a panic ends here, with the object that it carries. The caller decides on the
//! consequence: usually an error for the subject of the call, and nothing else. Comparators are not
//! called this way: without an order there is nothing to go on with.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The application's code panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panicked {
    /// Message of the panic, if that was a text.
    text: Option<String>,
}

/// "panicked", and the panic's message.
impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => write!(f, "panicked ({text})"),
            None => f.write_str("panicked"),
        }
    }
}

impl Panicked {
    // Once for all types of calls.
    #[cold]
    fn said(panic: Box<dyn Any + Send>) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.map(str::to_owned);
        // The object of a panic may have a destructor that panics, with another such object.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(another);
        }
        Panicked { text }
    }
}

/// Calls code of the application. The state that a panic leaves half way is that code's own.
pub(crate) fn contain<T>(call: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(call)).map_err(Panicked::said)
}

/// The name of an object of the application, for errors; "unknown" if it panics when it is asked.
pub(crate) fn name_of<'n>(name: impl Fn() -> &'n str) -> String {
    // Compiled once, not for each caller.
    fn named<'n>(name: &dyn Fn() -> &'n str) -> String {
        contain(|| name().to_owned()).unwrap_or_else(|_| "unknown".to_owned())
    }
    named(&name)
}

/// Ends an object of the application, whose destructor may panic.
pub(crate) fn end<T>(object: T) {
    // A panic changes nothing: the object is gone.
    let _ = contain(|| drop(object));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_panic_said_is_kept_if_it_is_a_text() {
        assert_eq!(contain(|| 7), Ok(7));
        let said = |call: fn()| contain(call).unwrap_err().to_string();
        assert_eq!(said(|| panic!("as {}", "told")), "panicked (as told)");
        assert_eq!(said(|| panic!("as told")), "panicked (as told)");
        assert_eq!(said(|| std::panic::panic_any(7)), "panicked");
    }

    /// Panics with another of its kind when it is dropped.
    struct Endless;

    impl Drop for Endless {
        fn drop(&mut self) {
            std::panic::panic_any(Endless);
        }
    }

    #[test]
    fn a_panic_ends_here_although_what_it_carries_cannot_be_dropped() {
        assert_eq!(
            contain(|| drop(Endless)).unwrap_err().to_string(),
            "panicked"
        );
        end(Endless);
    }

    #[test]
    fn what_panics_at_its_name_is_unknown() {
        assert_eq!(name_of(|| "a name"), "a name");
        assert_eq!(name_of(|| panic!("no name")), "unknown");
    }
}
