//! Progress on standard error, if that is a terminal, and numbers for people.

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use tifs::dump::Amount;

/// A counter of something without a known end.
pub(super) fn bar(what: &'static str) -> ProgressBar {
    with_template(what, "{spinner} {human_pos} {prefix}  {per_sec}  {elapsed}")
}

/// A counter of bytes without a known end.
pub(super) fn bytes_bar(what: &'static str) -> ProgressBar {
    with_template(
        what,
        "{prefix} {spinner} {bytes}  {bytes_per_sec}  {elapsed}",
    )
}

/// A line that says which step is running.
pub(super) fn steps(steps: u64) -> ProgressBar {
    let bar = with_template("", "{wide_bar} {pos}/{len}  {msg}");
    bar.set_length(steps);
    bar
}

/// Bytes in a unit that suits them.
pub(super) fn bytes(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// A number of something, whose plural ends with an s.
pub(super) fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}

/// The extent of a dump or load.
pub(super) fn amount(amount: Amount) -> String {
    format!("{}, {}", count(amount.records, "key"), bytes(amount.bytes))
}

fn with_template(prefix: &'static str, template: &str) -> ProgressBar {
    // The templates are constants and tested; a plain spinner is a harmless fallback.
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::no_length()
        .with_style(style)
        .with_prefix(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(5 << 20), "5.00 MiB");
        assert_eq!(count(1, "key"), "1 key");
        assert_eq!(count(0, "key"), "0 keys");
    }
}
