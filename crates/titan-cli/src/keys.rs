//! Converts keys and values between bytes and text.
//!
//! Input: text stands for its bytes, `0x` and an even number of hexadecimal digits for the bytes
//! they spell (so a key that itself begins with `0x` must be given in hexadecimal). Output:
//! printable text as it is, anything else as `\n`, `\r`, `\t`, `\\` or `\xHH`; in JSON as a string,
//! or under the name with `_hex` if the bytes are not UTF-8; with `--hex` as `0x` and upper-case
//! digits, in JSON under the name with `_hex`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use serde_json::{Map, Value};
use titan::{Error, Result};

/// The bytes of a key or value given on the command line.
///
/// # Errors
/// `InvalidArgument` if the text begins with `0x` and does not continue with pairs of hexadecimal
/// digits.
pub(crate) fn parse(text: &OsStr) -> Result<Vec<u8>> {
    let bytes = text.as_bytes();
    let Some(digits) = bytes.strip_prefix(b"0x") else {
        return Ok(bytes.to_vec());
    };
    from_hex(digits).ok_or_else(|| {
        let text = text.to_string_lossy();
        Error::invalid_argument(format!(
            "{text} is not an even number of hexadecimal digits"
        ))
    })
}

/// The same for an option that may be omitted.
pub(crate) fn parse_if_given(text: &Option<OsString>) -> Result<Option<Vec<u8>>> {
    text.as_deref().map(parse).transpose()
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |d: u8| (d as char).to_digit(16);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|p| u8::try_from(digit(p[0])? << 4 | digit(p[1])?).ok())
        .collect()
}

/// Appends `0x` and two upper-case digits per byte, as `ldb --hex` prints.
pub(crate) fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.reserve(2 + 2 * bytes.len());
    out.extend_from_slice(b"0x");
    for &byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// The bytes as [`push_hex`] writes them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    push_hex(&mut out, bytes);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends the bytes in a form that a terminal can show, without loss of information.
pub(crate) fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let escape = |out: &mut Vec<u8>, bytes: &[u8]| {
        for byte in bytes {
            out.extend_from_slice(format!("\\x{byte:02X}").as_bytes());
        }
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.extend_from_slice(b"\\\\"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                ' '..='~' => out.push(c as u8),
                _ => {
                    let mut buffer = [0; 4];
                    let encoded = c.encode_utf8(&mut buffer).as_bytes();
                    // Characters that Rust would escape are invisible or change adjacent ones.
                    if c.escape_debug().len() > 1 {
                        escape(out, encoded);
                    } else {
                        out.extend_from_slice(encoded);
                    }
                }
            }
        }
        escape(out, chunk.invalid());
    }
}

/// The bytes as [`push_escaped`] writes them.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    push_escaped(&mut out, bytes);
    String::from_utf8_lossy(&out).into_owned()
}

/// Adds bytes to a JSON object: under `name` as text, or in hexadecimal under `name_hex` if they
/// are not UTF-8 or `as_hex` is set.
pub(crate) fn insert_json(object: &mut Map<String, Value>, name: &str, bytes: &[u8], as_hex: bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !as_hex => object.insert(name.to_owned(), text.into()),
        _ => object.insert(format!("{name}_hex"), hex(bytes).into()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_and_text() {
        let parsed = |text: &str| parse(OsStr::new(text));
        assert_eq!(parsed("abc").unwrap(), b"abc");
        assert_eq!(parsed("").unwrap(), b"");
        assert_eq!(parsed("0x").unwrap(), b"");
        assert_eq!(parsed("0x00fFaB").unwrap(), [0, 255, 0xab]);
        assert_eq!(parsed("0Xff").unwrap(), b"0Xff");
        for wrong in ["0x0", "0xzz", "0x+1", "0x1 "] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        assert_eq!(hex(&[0, 0xab]), "0x00AB");
    }

    #[test]
    fn only_what_a_terminal_shows_stays() {
        assert_eq!(escaped("a b~é日\"'".as_bytes()), "a b~é日\"'");
        assert_eq!(
            escaped(b"\x00\n\r\t\\\x7f\xff"),
            "\\x00\\n\\r\\t\\\\\\x7F\\xFF"
        );
        assert_eq!(
            escaped("\u{202e}\u{85}".as_bytes()),
            "\\xE2\\x80\\xAE\\xC2\\x85"
        );
        assert_eq!(escaped(b"\xe6\x97"), "\\xE6\\x97");
    }

    #[test]
    fn json_has_text_where_it_can() {
        let mut object = Map::new();
        insert_json(&mut object, "a", b"x", false);
        insert_json(&mut object, "b", b"\xff", false);
        insert_json(&mut object, "c", b"x", true);
        let text = Value::Object(object).to_string();
        assert_eq!(text, r#"{"a":"x","b_hex":"0xFF","c_hex":"0x78"}"#);
    }
}
