//! Draws progress on standard error, if that is a terminal. Ctrl-C says how far it came.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::interrupt;

const BYTES: &str = "{prefix} {wide_bar} {bytes}/{total_bytes}  {bytes_per_sec}  ETA {eta}";
const BYTES_OPEN: &str = "{prefix} {spinner} {bytes}  {bytes_per_sec}  {elapsed}";
const OPERATIONS: &str = "{prefix} {wide_bar} {human_pos}/{human_len}  {per_sec}  ETA {eta}";
const OPERATIONS_OPEN: &str = "{prefix} {spinner} {human_pos}  {per_sec}  {elapsed}";

/// Whether a bar would be drawn; if not, its total need not be computed.
pub(crate) fn visible() -> bool {
    !ProgressDrawTarget::stderr().is_hidden()
}

/// A bar over bytes; without a known total it only counts.
pub(crate) fn bytes(what: &'static str, total: Option<u64>) -> ProgressBar {
    let bar = bar(what, total, BYTES, BYTES_OPEN);
    interrupt::watch(&bar, true);
    bar
}

/// A bar over operations; without a known total it only counts.
pub(crate) fn operations(what: &'static str, total: Option<u64>) -> ProgressBar {
    let bar = bar(what, total, OPERATIONS, OPERATIONS_OPEN);
    interrupt::watch(&bar, false);
    bar
}

fn bar(what: &'static str, total: Option<u64>, closed: &str, open: &str) -> ProgressBar {
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::no_length(),
    };
    let template = if total.is_some() { closed } else { open };
    // The templates are constants and tested; a plain bar is a harmless fallback.
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_prefix(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_well_formed() {
        for template in [BYTES, BYTES_OPEN, OPERATIONS, OPERATIONS_OPEN] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
