//! The `use` statements, paths and items of a file.

use std::collections::BTreeSet;

/// A name that a `use` brings into a file.
#[derive(Debug, PartialEq)]
pub(super) struct Use {
    pub(super) path: Vec<String>,
    /// `*` if it brings all names of the path.
    pub(super) name: String,
    /// Whether others may use the name from here.
    pub(super) is_public: bool,
}

/// Names, `::`, and single signs.
fn tokens(code: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The modules that a file declares to have files of their own.
pub(super) fn declared_modules(code: &str) -> Vec<String> {
    let tokens = tokens(code);
    let declared = tokens.windows(3).filter(|w| w[0] == "mod" && w[2] == ";");
    declared.map(|w| w[1].to_owned()).collect()
}

/// The names that a file uses, the other paths in it, and the items that it defines.
pub(super) fn read(code: &str) -> (Vec<Use>, Vec<Vec<String>>, BTreeSet<String>) {
    let tokens = tokens(code);
    let (mut uses, mut paths, mut items) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at] {
            "use" => {
                let is_public = at > 0 && matches!(tokens[at - 1], "pub" | ")");
                let before = uses.len();
                at = read_use(&tokens, at + 1, &[], &mut uses);
                for used in &mut uses[before..] {
                    used.is_public = is_public;
                }
            }
            "pub" if tokens.get(at + 1) == Some(&"(") => {
                while at < tokens.len() && tokens[at] != ")" {
                    at += 1;
                }
            }
            "struct" | "enum" | "trait" | "fn" | "type" | "const" | "static" | "union" => {
                if let Some(name) = tokens.get(at + 1) {
                    items.insert((*name).to_owned());
                }
                at += 1;
            }
            "macro_rules" => {
                if let Some(name) = tokens.get(at + 2) {
                    items.insert((*name).to_owned());
                }
                at += 1;
            }
            // The crate of a macro's definition, not of its uses.
            "$" => at += 2,
            token if is_name(token) && tokens.get(at + 1) == Some(&"::") => {
                let mut path = vec![token.to_owned()];
                while tokens.get(at + 1) == Some(&"::") {
                    let Some(next) = tokens.get(at + 2).filter(|next| is_name(next)) else {
                        break;
                    };
                    path.push((*next).to_owned());
                    at += 2;
                }
                paths.push(path);
                at += 1;
            }
            _ => at += 1,
        }
    }
    (uses, paths, items)
}

/// Reads one branch of a `use` and returns the place after it.
fn read_use(tokens: &[&str], from: usize, above: &[String], uses: &mut Vec<Use>) -> usize {
    let mut path = above.to_vec();
    let mut at = from;
    while let Some(token) = tokens.get(at) {
        match *token {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    at = read_use(tokens, at, &path, uses);
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                return at + 1;
            }
            "*" => {
                let name = "*".to_owned();
                uses.push(Use {
                    path,
                    name,
                    is_public: false,
                });
                return at + 1;
            }
            name if is_name(name) => {
                // `self` in braces is the path above.
                if name != "self" || path.is_empty() {
                    path.push(name.to_owned());
                }
                at += 1;
                let next = tokens.get(at).copied().unwrap_or(";");
                if next == "::" {
                    continue;
                }
                let mut name = path.last().cloned().unwrap_or_default();
                if next == "as" {
                    name = tokens.get(at + 1).copied().unwrap_or("_").to_owned();
                    at += 2;
                }
                uses.push(Use {
                    path,
                    name,
                    is_public: false,
                });
                return at;
            }
            _ => return at + 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_uses_is_a_list_of_paths() {
        let code =
            "pub(crate) use a::{b, c::{self, d as e}, f::*};\nuse g;\nfn h() { i::j::<K>(l); }";
        let (uses, paths, items) = read(code);
        let uses: Vec<String> = uses
            .iter()
            .map(|used| format!("{} {} {}", used.path.join("::"), used.name, used.is_public))
            .collect();
        let expected = [
            "a::b b true",
            "a::c c true",
            "a::c::d e true",
            "a::f * true",
            "g g false",
        ];
        assert_eq!(uses, expected);
        assert_eq!(paths, [["i", "j"]]);
        assert_eq!(items, BTreeSet::from(["h".to_owned()]));
    }
}
