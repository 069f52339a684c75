//! Limits of structs, files and folders.

use std::io;
use std::path::Path;

use super::sources::Sources;

const FIELDS: usize = 12;
const LINES: usize = 600;
const FILES: usize = 25;

/// Structs with more fields than a struct may have that several files touch: one with many fields
/// that many files change has no owner.
pub(super) fn structs(sources: &Sources, records: &[&str]) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut unused = records.to_vec();
    for module in sources.0.values() {
        for (name, fields) in shared_structs(&module.code) {
            if fields <= FIELDS {
                continue;
            }
            if records.contains(&name) {
                unused.retain(|record| *record != name);
                continue;
            }
            let file = module.file.display();
            breaches.push(format!("{file}: struct {name} has {fields} fields"));
        }
    }
    let unused = unused.into_iter();
    breaches.extend(unused.map(|name| format!("{name} is no struct of more than {FIELDS} fields")));
    breaches
}

/// The structs with fields that other files may touch, with the number of all their fields.
fn shared_structs(code: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    for (at, _) in code.match_indices("struct ") {
        let rest = &code[at + "struct ".len()..];
        let (name, rest) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        let is_word = !code[..at].ends_with(is_name);
        let Some(start) = rest
            .find(['{', ';', '('])
            .filter(|at| rest[*at..].starts_with('{'))
        else {
            continue;
        };
        if !is_word || name.is_empty() {
            continue;
        }
        // A field is a name and a colon at the depth of the struct.
        let (mut depth, mut fields, mut is_shared) = (0_usize, 0, false);
        let body = &rest[start..];
        for (at, c) in body.char_indices() {
            match c {
                '{' | '(' | '[' | '<' => depth += 1,
                '>' if body[..at].ends_with('-') => {}
                '}' | ')' | ']' | '>' => depth -= 1,
                ':' if depth == 1
                    && !body[at + 1..].starts_with(':')
                    && !body[..at].ends_with(':') =>
                {
                    fields += 1;
                    let head = body[..at]
                        .rsplit([',', '{', '\n'])
                        .next()
                        .unwrap_or_default();
                    is_shared |= head.trim_start().starts_with("pub");
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        if is_shared {
            found.push((name, fields));
        }
    }
    found
}

/// Files and folders of a crate's sources and tests that are too large.
pub(super) fn files(dir: &Path) -> io::Result<Vec<String>> {
    let mut breaches = Vec::new();
    let mut waiting = vec![dir.join("src"), dir.join("tests")];
    waiting.retain(|dir| dir.is_dir());
    while let Some(folder) = waiting.pop() {
        let mut files = 0;
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files += 1;
                let lines = std::fs::read_to_string(&path)?.lines().count();
                if lines > LINES {
                    let file = path.strip_prefix(dir).unwrap_or(&path).display();
                    breaches.push(format!("{file} has {lines} lines"));
                }
            }
        }
        if files > FILES {
            let folder = folder.strip_prefix(dir).unwrap_or(&folder).display();
            breaches.push(format!("{folder} has {files} files"));
        }
    }
    Ok(breaches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_where_others_may_touch_them() {
        let code = "pub struct A { b: Vec<(u8, fn(u8) -> u8)>, pub(crate) c: d::E }\nstruct F { g: u8 }\n\
                    struct H(pub u8);\nstruct I;\nstruct J<K: L> { pub m: K }\n";
        assert_eq!(shared_structs(code), [("A", 2), ("J", 1)]);
    }
}
