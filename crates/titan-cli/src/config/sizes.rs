//! Sizes with units, as they are shown: `64 MiB`.

/// Units of 1024, the smallest first.
const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// The bytes of a size: a whole number and a unit, with a space between them or none.
///
/// # Errors
/// The reason for which it is no size.
pub(super) fn parse(text: &str) -> Result<i64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = UNITS
        .iter()
        .position(|known| known.eq_ignore_ascii_case(unit.trim_start()));
    let (Some(unit), false) = (unit, number.is_empty()) else {
        return Err(format!(
            "`{text}` is no size: a size is a whole number with B, KiB, MiB, GiB or TiB"
        ));
    };
    let number: Option<i64> = number.parse().ok();
    number
        .and_then(|number| number.checked_mul(1 << (10 * unit)))
        .ok_or_else(|| format!("`{text}` is more than any size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in [
            ("0 B", 0),
            ("7B", 7),
            ("64 MiB", 64 << 20),
            ("1kib", 1024),
            ("3  GiB", 3 << 30),
            ("8388607 TiB", i64::MAX - ((1 << 40) - 1)),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for wrong in [
            "", "64", "MiB", "-1 MiB", "1.5 GiB", "64 MB", "64 MiB x", "1_0 B",
        ] {
            let why = parse(wrong).unwrap_err();
            assert!(why.contains("is no size"), "{why}");
        }
        for large in ["8388608 TiB", "99999999999999999999 B"] {
            let why = parse(large).unwrap_err();
            assert!(why.contains("more than any size"), "{why}");
        }
    }
}
