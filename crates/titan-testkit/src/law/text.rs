//! Rust source without what is no code: comments, literals, and items that only tests, models and
//! fuzz targets compile.

/// A text in which comments and the contents of literals are blanks. Lines and columns (in bytes)
/// stay the same.
pub(super) fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => find(bytes, at, b"\n"),
            b'/' if bytes.get(at + 1) == Some(&b'*') => end_of_block_comment(bytes, at),
            b'"' => end_of_string(bytes, at),
            b'r' if !follows_name(bytes, at) => match end_of_raw_string(bytes, at) {
                Some(end) => end,
                None => at,
            },
            b'\'' => end_of_char(bytes, at),
            _ => at,
        };
        for byte in &mut code[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8(code).unwrap_or_default()
}

fn find(bytes: &[u8], from: usize, wanted: &[u8]) -> usize {
    let found = bytes[from..]
        .windows(wanted.len())
        .position(|w| w == wanted);
    found.map_or(bytes.len(), |found| from + found)
}

fn follows_name(bytes: &[u8], at: usize) -> bool {
    // The `b` of `br"..."` is no name before a raw string.
    let before = |n: usize| at.checked_sub(n).map_or(b' ', |at| bytes[at]);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match before(1) {
        b'b' => is_name(before(2)),
        byte => is_name(byte),
    }
}

fn end_of_block_comment(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_usize);
    while at < bytes.len() {
        match &bytes[at..(at + 2).min(bytes.len())] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(bytes.len())
}

fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

fn end_of_raw_string(bytes: &[u8], from: usize) -> Option<usize> {
    let hashes = bytes[from + 1..].iter().take_while(|b| **b == b'#').count();
    if bytes.get(from + 1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let end = find(bytes, from + 2 + hashes, &close) + close.len();
    Some(end.min(bytes.len()))
}

/// The end of a literal of a character. A lifetime has no end: it is code.
fn end_of_char(bytes: &[u8], from: usize) -> usize {
    if bytes.get(from + 1) == Some(&b'\\') {
        return (find(bytes, (from + 3).min(bytes.len()), b"'") + 1).min(bytes.len());
    }
    let width = match bytes.get(from + 1) {
        Some(0..0x80) => 1,
        Some(0x80..0xe0) => 2,
        Some(0xe0..0xf0) => 3,
        _ => 4,
    };
    match bytes.get(from + 1 + width) {
        Some(b'\'') => from + width + 2,
        _ => from,
    }
}

/// Code without the items for which `cfg` asks for tests, models or fuzz targets.
pub(super) fn without_tests(code: &str) -> String {
    let mut rest = code;
    let mut kept = String::new();
    while let Some(start) = rest.find("#[cfg(") {
        let (before, attribute) = rest.split_at(start);
        kept.push_str(before);
        let Some(end) = attribute.find("]\n").or_else(|| attribute.find(']')) else {
            break;
        };
        let (attribute, item) = attribute.split_at(end + 1);
        if is_of_tests(attribute) {
            rest = &item[end_of_item(item)..];
        } else {
            kept.push_str(attribute);
            rest = item;
        }
    }
    kept.push_str(rest);
    kept
}

fn is_of_tests(attribute: &str) -> bool {
    let words = attribute.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut words = words.filter(|word| !word.is_empty()).skip(1);
    let asks = |word: &str| ["test", "loom", "shuttle", "fuzzing"].contains(&word);
    words.clone().any(asks) && !words.any(|word| word == "not")
}

/// The end of the first item of a text: of a `{...}`, or of a statement.
fn end_of_item(text: &str) -> usize {
    let (mut depth, mut in_use) = (0_usize, false);
    for (at, c) in text.char_indices() {
        match c {
            '{' => {
                in_use |= depth == 0 && text[..at].trim_end().ends_with("::");
                depth += 1;
            }
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && !in_use {
                    return at + 1;
                }
            }
            ';' | ',' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank() {
        let text = "a /* b /* c */ d */ e // f\n'g' 'h \"i\\\"j\" r#\"k\"l\"# '\\'' m br\"n\" for";
        let code = code(text);
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "e", "'h", "m", "b", "for"]);
        assert_eq!(code.len(), text.len());
    }

    #[test]
    fn items_of_tests_are_left_out() {
        let text = "use one;\n#[cfg(test)]\nuse two::{a, b};\n#[cfg(not(test))]\nfn three() {}\n\
                    #[cfg(all(test, loom))]\n#[x]\nmod four {\n fn four() {}\n}\nfn five() {}";
        let kept = without_tests(text);
        for (name, stays) in [
            ("one", true),
            ("two", false),
            ("three", true),
            ("four", false),
            ("five", true),
        ] {
            assert_eq!(kept.contains(name), stays, "{name} in {kept}");
        }
    }
}
