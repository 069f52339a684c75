//! Limits of structs and files.

use std::io;
use std::path::Path;

use super::sources::Sources;

const FIELDS: usize = 12;
const LINES: usize = 600;

/// Structs with more fields than a struct may have that several files touch: one with many fields
/// that many files change has no owner. Others touch a struct if one of its fields is not private,
/// or if a file below its module has an `impl` of it.
pub(super) fn structs(sources: &Sources, records: &[&str]) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut unused = records.to_vec();
    for (path, module) in &sources.0 {
        for Struct {
            name,
            fields,
            is_open,
        } in structs_of(&module.code)
        {
            let mut beneath = sources
                .0
                .iter()
                .filter(|(other, _)| other.len() > path.len() && other.starts_with(path));
            let is_shared = is_open || beneath.any(|(_, module)| implements(&module.code, name));
            if fields <= FIELDS || !is_shared {
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

#[derive(Debug, PartialEq)]
struct Struct<'c> {
    name: &'c str,
    fields: usize,
    /// Whether one of its fields is not private.
    is_open: bool,
}

/// The structs with named fields.
fn structs_of(code: &str) -> Vec<Struct<'_>> {
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
        let (mut depth, mut fields, mut is_open) = (0_usize, 0, false);
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
                    is_open |= head.trim_start().starts_with("pub");
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        found.push(Struct {
            name,
            fields,
            is_open,
        });
    }
    found
}

/// Whether a file has an `impl` of the type of this name.
fn implements(code: &str, name: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices("impl").any(|(at, word)| {
        let rest = &code[at + word.len()..];
        let is_word = !code[..at].ends_with(is_name) && !rest.starts_with(is_name);
        let head = rest.split(['{', ';']).next().unwrap_or_default();
        let own = match head.rsplit_once(" for ") {
            Some((_, own)) => own,
            None => after_generics(head),
        };
        let own = own.split('<').next().unwrap_or_default();
        is_word && own.trim().rsplit("::").next() == Some(name)
    })
}

/// The text after the parameters with which it may begin.
fn after_generics(text: &str) -> &str {
    let text = text.trim_start();
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !text[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { text } else { &text[at + 1..] };
        }
    }
    text
}

/// Files of a crate's sources and tests that are too large.
pub(super) fn files(dir: &Path) -> io::Result<Vec<String>> {
    let mut breaches = Vec::new();
    let mut waiting = vec![dir.join("src"), dir.join("tests")];
    waiting.retain(|dir| dir.is_dir());
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let lines = std::fs::read_to_string(&path)?.lines().count();
                if lines > LINES {
                    let file = path.strip_prefix(dir).unwrap_or(&path).display();
                    breaches.push(format!("{file} has {lines} lines"));
                }
            }
        }
    }
    Ok(breaches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted() {
        let code = "pub struct A { b: Vec<(u8, fn(u8) -> u8)>, pub(crate) c: d::E }\nstruct F { g: u8 }\n\
                    struct H(pub u8);\nstruct I;\nstruct J<K: L> { pub m: K }\n";
        let found = structs_of(code);
        let found = found.iter().map(|it| (it.name, it.fields, it.is_open));
        let expected = [("A", 2, true), ("F", 1, false), ("J", 1, true)];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_impl_names_its_type() {
        for code in [
            "impl A {",
            "impl<'a, F: Fn(u8) -> B<u8>> b::A<'a, F> {",
            "impl<T> From<T> for A<T>\nwhere\n    T: B,\n{",
        ] {
            assert!(implements(code, "A"), "{code}");
        }
        for code in [
            "impl From<A> for B {",
            "impl AA {",
            "simpl A {",
            "impl B<A> {",
        ] {
            assert!(!implements(code, "A"), "{code}");
        }
    }
}
