//! Keys in texts for people.

use std::fmt;

/// Bytes of a key that are shown.
const SHOWN: usize = 64;

/// A key in the text of an error: in quotes, with escapes, cut if it is long.
pub struct KeyText<'k>(pub &'k [u8]);

impl fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..SHOWN).unwrap_or(self.0);
        write!(f, "'{}'", shown.escape_ascii())?;
        match self.0.len() > SHOWN {
            true => write!(f, "... ({} bytes)", self.0.len()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_quoted_escaped_and_cut() {
        assert_eq!(KeyText(b"a'b\n").to_string(), r"'a\'b\n'");
        let exact = [b'x'; SHOWN];
        assert_eq!(KeyText(&exact).to_string().len(), SHOWN + 2);
        let long = KeyText(&[b'x'; SHOWN + 1]).to_string();
        assert!(long.ends_with("x'... (65 bytes)"), "{long}");
    }
}
