//! The laws of words, which judge the comments, documents and folders of the whole workspace.
//!
//! - [`wide`]: lines of comments have at most 100 columns. A row of a table and a line of one word
//!   cannot be broken, so they may be longer;
//! - [`openings`]: no paragraph of a doc comment begins with What, Who, That or How;
//! - [`paths`]: the files that comments and documents name exist, and the name is that of one file;
//! - [`links`]: the files and headings to which documents link exist;
//! - [`crowded`]: a folder has at most 25 files;
//! - [`count`]: the number of words of documents is limited.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

const COLUMNS: usize = 100;
const FILES: usize = 25;
const OPENINGS: [&str; 4] = ["What", "Who", "That", "How"];
/// Folders of the workspace that a name may begin with which names a file or folder from the root.
const ROOTS: [&str; 6] = ["crates/", "docs/", "scripts/", "fuzz/", ".ci/", ".cargo/"];
/// Endings of the files that are looked up wherever they are named.
const ENDINGS: [&str; 3] = [".rs", ".md", ".toml"];

/// A place that breaks a law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The file, from the root of the workspace on.
    pub file: PathBuf,
    /// The line, the first is 1; 0 if all of the file or folder breaks the law.
    pub line: usize,
    /// The offending text.
    pub text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.text)
    }
}

impl Breach {
    /// The crate that has the file, or the first folder of its path.
    pub fn part(&self) -> &str {
        let mut names = self.file.iter().filter_map(|name| name.to_str());
        match names.next() {
            Some("crates") => names.next().unwrap_or_default(),
            first => first.unwrap_or_default(),
        }
    }
}

/// Folders of the root that belong to the project.
const FOLDERS: [&str; 7] = [
    ".cargo", ".ci", "crates", "docs", "fuzz", "minimal", "scripts",
];

/// The files of a workspace with their texts. Files that are no text are listed only.
pub struct Workspace {
    files: BTreeMap<PathBuf, Option<String>>,
    folders: BTreeSet<PathBuf>,
}

impl Workspace {
    /// Reads the files of the root and of the project's folders, but none that are built. A
    /// checkout may have other folders beside them, such as caches.
    ///
    /// # Errors
    ///
    /// If a file or directory cannot be read.
    pub fn read(root: &Path) -> io::Result<Workspace> {
        let (mut files, mut folders) = (BTreeMap::new(), BTreeSet::new());
        let mut waiting = vec![PathBuf::new()];
        while let Some(folder) = waiting.pop() {
            for entry in std::fs::read_dir(root.join(&folder))? {
                let entry = entry?;
                let path = folder.join(entry.file_name());
                let name = entry.file_name();
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    let is_ours = folder != Path::new("") || FOLDERS.iter().any(|f| name == *f);
                    if is_ours && name != "target" {
                        waiting.push(path);
                    }
                    continue;
                }
                if !kind.is_file() {
                    continue;
                }
                let is_read = path.extension().is_some_and(|e| e == "rs" || e == "md");
                let text = match is_read {
                    true => Some(std::fs::read_to_string(root.join(&path))?),
                    false => None,
                };
                files.insert(path, text);
            }
            folders.insert(folder);
        }
        Ok(Workspace { files, folders })
    }

    fn texts(&self, extension: &str) -> impl Iterator<Item = (&Path, &str)> {
        let files = self.files.iter();
        let files = files.filter(move |(path, _)| path.extension().is_some_and(|e| e == extension));
        files.filter_map(|(path, text)| Some((path.as_path(), text.as_deref()?)))
    }

    /// The lines of comments in Rust sources: file, number, the line.
    fn comments(&self) -> impl Iterator<Item = (&Path, usize, &str)> {
        self.texts("rs").flat_map(|(file, text)| {
            let lines = text.lines().zip(1..);
            let comments = lines.filter(|(line, _)| line.trim_start().starts_with("//"));
            comments.map(move |(line, number)| (file, number, line))
        })
    }

    /// The lines of documents that are not in a block of code.
    fn lines_of_documents(&self) -> impl Iterator<Item = (&Path, usize, &str)> {
        self.texts("md").flat_map(|(file, text)| {
            let mut is_code = false;
            let lines = text.lines().zip(1..).filter(move |(line, _)| {
                let is_fence = line.trim_start().starts_with("```");
                is_code ^= is_fence;
                !is_code && !is_fence
            });
            lines.map(move |(line, number)| (file, number, line))
        })
    }

    /// Whether a path names a file or folder from the root on.
    fn has(&self, path: &Path) -> bool {
        self.files.contains_key(path) || self.folders.contains(path)
    }

    /// Whether a reader of `file` finds the file or folder of a path there. It is, in this order:
    /// a path from the root; a file beside `file`, or below it if that is a module; a path beneath
    /// `src` of a crate that the file speaks of, or the only one of that crate that ends so; the
    /// only one of the workspace that ends so.
    fn leads_somewhere(&self, file: &Path, path: &Path) -> bool {
        let beside = [file.parent(), Some(&*file.with_extension(""))];
        let mut beside = beside.into_iter().flatten().map(|folder| folder.join(path));
        if self.has(path) || beside.any(|path| self.has(&path)) {
            return true;
        }
        let ends_so: Vec<&PathBuf> = self.files.keys().filter(|f| f.ends_with(path)).collect();
        ends_so.len() == 1
            || self.crates_of(file).iter().any(|folder| {
                let own = ends_so.iter().filter(|file| file.starts_with(folder));
                own.count() == 1 || self.has(&folder.join("src").join(path))
            })
    }

    /// The folders of the crates that a file speaks of: its own; of a document of none, the engine
    /// and those of which it names a file or folder.
    fn crates_of(&self, file: &Path) -> Vec<PathBuf> {
        let folder = |path: &Path| path.iter().take(2).collect::<PathBuf>();
        if file.starts_with("crates") {
            return vec![folder(file)];
        }
        let text = self.files.get(file).and_then(Option::as_deref);
        let named = text.into_iter().flat_map(str::lines).flat_map(names);
        let named = named.filter(|name| name.starts_with("crates/"));
        let named = named.map(|name| folder(Path::new(name)));
        let all: BTreeSet<PathBuf> = named.chain([PathBuf::from("crates/titan")]).collect();
        all.into_iter().collect()
    }

    /// Whether a path is the number of a decision record: `docs/adr/0002`.
    fn has_decision(&self, path: &str) -> bool {
        let is_record = |file: &PathBuf| {
            let name = file.to_str().and_then(|file| file.strip_prefix(path));
            name.is_some_and(|rest| rest.starts_with('-'))
        };
        path.starts_with("docs/adr/") && self.files.keys().any(is_record)
    }
}

/// Lines of comments that are too long.
pub fn wide(workspace: &Workspace) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (file, number, line) in workspace.comments() {
        let columns = line.chars().count();
        let text = line.trim_start().trim_start_matches(['/', '!']).trim();
        if columns > COLUMNS && text.contains(' ') && !text.starts_with('|') {
            breaches.push(breach(file, number, format!("{columns} columns")));
        }
    }
    breaches
}

/// Paragraphs of doc comments that begin with a clause.
pub fn openings(workspace: &Workspace) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (file, text) in workspace.texts("rs") {
        // The sign of the comment, and whether the next line of it goes on with a sentence.
        let mut before = (None, false);
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim_start();
            let sign = ["///", "//!"].into_iter().find(|it| line.starts_with(it));
            let text = sign.map_or("", |sign| line.trim_start_matches(sign).trim());
            let word = text.split(|c: char| !c.is_alphanumeric()).next();
            let is_clause = word.is_some_and(|word| OPENINGS.contains(&word));
            if is_clause && before != (sign, true) {
                breaches.push(breach(file, number, text.to_owned()));
            }
            before = (sign, !text.is_empty() && !text.starts_with('#'));
        }
    }
    breaches
}

/// Files and folders that are named in comments and documents, and do not exist or are one of
/// several.
///
/// A name that begins with a folder of the root is looked up from there. A name of a Rust file, a
/// document or a TOML file may begin with any folder, but must lead a reader to one file: beside
/// the file that names it, in a crate that this file speaks of, or in the workspace. Decision
/// records tell the past: in them only links are looked up. `others` are names of files that
/// programs write, or that several crates have.
pub fn paths(workspace: &Workspace, others: &[&str]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let documents = workspace.lines_of_documents();
    let documents = documents.filter(|(file, ..)| !file.starts_with("docs/adr"));
    for (file, number, line) in workspace.comments().chain(documents) {
        for name in names(line) {
            let path = Path::new(name);
            let is_there = workspace.leads_somewhere(file, path) || workspace.has_decision(name);
            if !is_there && !others.contains(&name) {
                breaches.push(breach(file, number, name.to_owned()));
            }
        }
    }
    breaches
}

/// The words of a line that name files or folders of the workspace.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "._/-".contains(c);
    let mut rest = line;
    let words = std::iter::from_fn(move || {
        let start = rest.find(is_part)?;
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        rest = after;
        // A part of an address, of a pattern, or of a path of placeholders.
        let is_whole = !before.ends_with([':', '*', '{', '}', '~', '$', '>', '=', '\\', '@'])
            && !after.starts_with(['*', '{', '<', '$', '(', ':', '='])
            && !word.starts_with('/');
        Some((word, is_whole))
    });
    let words = words.filter_map(|(word, is_whole)| is_whole.then_some(word));
    let words = words.map(|word| word.trim_end_matches(['.', '-', '/']));
    let words = words.map(|word| word.trim_start_matches("../").trim_start_matches("./"));
    words.filter(|word| {
        let from_root = ROOTS.iter().any(|root| word.starts_with(root));
        let is_file = ENDINGS
            .iter()
            .any(|ending| word.len() > ending.len() && word.ends_with(ending));
        let is_placeholder = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        };
        !word.contains("..") && !word.split('/').any(is_placeholder) && (from_root || is_file)
    })
}

/// Links of documents to files and headings that do not exist.
pub fn links(workspace: &Workspace) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (file, number, line) in workspace.lines_of_documents() {
        for link in line.split("](").skip(1) {
            let target = link.split([')', ' ']).next().unwrap_or_default();
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let folder = file.parent().unwrap_or(Path::new(""));
            let path = match path {
                "" => Some(file.to_owned()),
                path => normal(&folder.join(path)),
            };
            let found = path.filter(|path| workspace.has(path));
            let is_there = found.is_some_and(|path| {
                let text = workspace.files.get(&path).and_then(Option::as_deref);
                heading.is_empty() || text.is_some_and(|text| headings(text).contains(heading))
            });
            if !is_there {
                breaches.push(breach(file, number, target.to_owned()));
            }
        }
    }
    breaches
}

/// Folders with more files than a reader can survey. `data` are folders of files that nobody reads
/// in a row, from the root of the workspace on; folders beneath them count as they do.
pub fn crowded(workspace: &Workspace, data: &[&str]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for folder in &workspace.folders {
        let files = workspace.files.keys();
        let files = files
            .filter(|file| file.parent() == Some(folder.as_path()))
            .count();
        if files > FILES && !data.iter().any(|data| folder.starts_with(data)) {
            breaches.push(breach(folder, 0, format!("{files} files")));
        }
    }
    breaches
}

/// Number of words of the documents whose paths, from the root of the workspace on, `belongs`
/// takes. A word is what is between blanks, as `wc` counts.
pub fn count(workspace: &Workspace, belongs: impl Fn(&Path) -> bool) -> usize {
    let documents = workspace.texts("md").filter(|(file, _)| belongs(file));
    documents
        .map(|(_, text)| text.split_whitespace().count())
        .sum()
}

/// A path without `..`; nothing if it leads out of the workspace.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            name => normal.push(name),
        }
    }
    Some(normal)
}

/// The names by which links reach the headings of a document.
fn headings(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        // Of a link, the text counts.
        let mut parts = title.split("](");
        let mut title = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            title += part.split_once(')').map_or(part, |(_, rest)| rest);
        }
        let name: String = title
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                _ => None,
            })
            .collect();
        // The second heading of a name has a number.
        let mut numbered = name.clone();
        for number in 1.. {
            if found.insert(numbered) {
                break;
            }
            numbered = format!("{name}-{number}");
        }
    }
    found
}

fn breach(file: &Path, line: usize, text: String) -> Breach {
    Breach {
        file: file.to_owned(),
        line,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(files: &[(&str, &str)]) -> Workspace {
        let files = files.iter();
        let files: BTreeMap<_, _> = files
            .map(|(name, text)| (PathBuf::from(name), Some((*text).to_owned())))
            .collect();
        let folders = files
            .keys()
            .flat_map(|file| file.ancestors().skip(1).map(Path::to_owned));
        Workspace {
            folders: folders.collect(),
            files,
        }
    }

    fn texts(breaches: &[Breach]) -> Vec<String> {
        breaches.iter().map(Breach::to_string).collect()
    }

    #[test]
    fn a_line_of_a_comment_has_at_most_a_hundred_columns() {
        let at = |columns: usize| format!("    // a {}\n", "ä".repeat(columns - 9));
        let text =
            at(100) + &at(101) + &format!("// | {} |\n/// {}\n", "b ".repeat(60), "c".repeat(120));
        let found = wide(&workspace(&[("crates/a/src/lib.rs", &text)]));
        assert_eq!(texts(&found), ["crates/a/src/lib.rs:2: 101 columns"]);
        assert_eq!(found[0].part(), "a");
    }

    #[test]
    fn no_paragraph_of_a_doc_comment_begins_with_a_clause() {
        let lines = [
            "//! How it works.",
            "//! What goes on with it.",
            "//!",
            "//! What follows.",
            "",
            "/// Whatever.",
            "/// What it is.",
            "///",
            "/// # Errors",
            "/// What fails.",
            "fn a() {}",
            "// What is no doc comment.",
            "    /// That.",
        ];
        let text = lines.join("\n");
        let found = openings(&workspace(&[("src/lib.rs", &text)]));
        let lines: Vec<usize> = found.iter().map(|breach| breach.line).collect();
        assert_eq!(lines, [1, 4, 10, 13]);
    }

    #[test]
    fn files_that_comments_and_documents_name_exist() {
        let lines = [
            "// See db/set.rs, `docs/a.md`, lib.rs, https://x.y/z/gone.rs and docs/gone.md.",
            "// Also `set/gone.rs`, crates/a/src, docs/adr/1, docs/adr/2, {dir}/b.rs, *.rs, docs/NAME.",
        ];
        let text = lines.join("\n");
        let document = "`db/gone.rs` and\n```\ndb/in_code.rs\n```\n[a](../crates/b/src)\n";
        let files = [
            ("crates/a/src/db/set.rs", ""),
            ("crates/a/src/lib.rs", &text),
            ("docs/a.md", document),
            ("docs/adr/1-a.md", "`db/past.rs`"),
        ];
        let found = paths(&workspace(&files), &[]);
        let expected = [
            "crates/a/src/lib.rs:1: docs/gone.md",
            "crates/a/src/lib.rs:2: set/gone.rs",
            "crates/a/src/lib.rs:2: docs/adr/2",
            "docs/a.md:1: db/gone.rs",
            "docs/a.md:5: crates/b/src",
        ];
        assert_eq!(texts(&found), expected);
        assert_eq!(paths(&workspace(&files), &["set/gone.rs"]).len(), 4);
    }

    #[test]
    fn a_name_leads_to_one_file() {
        let files = [
            ("crates/a/src/one/same.rs", ""),
            ("crates/a/src/two/same.rs", ""),
            ("crates/b/src/deep/same.rs", ""),
            ("crates/a/src/one/other.rs", "// Beside it: same.rs"),
            ("crates/a/src/one.rs", "// Its module: same.rs"),
            ("crates/a/src/lib.rs", "// One of two: same.rs, one/same.rs"),
            ("crates/b/src/lib.rs", "// Of the crate: same.rs"),
            ("docs/c.md", "One of three: `same.rs`\n"),
            ("docs/d.md", "`crates/a/src` has two: `same.rs`\n"),
            ("docs/e.md", "`crates/b/src` has one: `same.rs`\n"),
        ];
        let found = paths(&workspace(&files), &[]);
        let expected = [
            "crates/a/src/lib.rs:1: same.rs",
            "docs/c.md:1: same.rs",
            "docs/d.md:1: same.rs",
        ];
        assert_eq!(texts(&found), expected);
    }

    #[test]
    fn folders_have_at_most_25_files() {
        let names = |folder: &str, files: usize| {
            let name = |i| format!("{folder}/{i}.txt");
            (0..files).map(name).collect::<Vec<_>>()
        };
        let names = [names("a", 25), names("b/c", 26), names("d/e", 26)].concat();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        let found = crowded(&workspace(&files), &["d"]);
        assert_eq!(texts(&found), ["b/c:0: 26 files"]);
    }

    #[test]
    fn words_of_documents_are_counted() {
        let files = [
            ("docs/a.md", "# A\n\ntwo  words\n"),
            ("docs/b/c.md", "one"),
            ("docs/d.txt", "none of these"),
        ];
        let workspace = workspace(&files);
        let of_docs = |file: &Path| file.parent() == Some(Path::new("docs"));
        assert_eq!(count(&workspace, of_docs), 4);
        assert_eq!(count(&workspace, |_| true), 5);
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let files = [
            (
                "README.md",
                "# A\n[b](docs/b.md#two-words) [c](docs/c.md) [d](#a) [c](docs/b.md#c-e) [e](#e) [f](https://g)\n",
            ),
            (
                "docs/b.md",
                "# B\n## Two *words*\n## Two words\n## [C](b.md) (e)\n[a](../README.md#a) [x](../../x)\n",
            ),
            (
                "docs/adr/1.md",
                "[b](../b.md#two-words-1) [b](../b.md#two-words-2) [docs](..)\n",
            ),
        ];
        let found = links(&workspace(&files));
        let expected = [
            "README.md:2: docs/c.md",
            "README.md:2: #e",
            "docs/adr/1.md:1: ../b.md#two-words-2",
            "docs/b.md:5: ../../x",
        ];
        assert_eq!(texts(&found), expected);
    }
}
