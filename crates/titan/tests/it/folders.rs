//! The folders within a module of the engine: their files import downward only, in the order of the
//! table in `docs/architecture.md`, in no circle, and no folder is a crowd.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::layers::{circle_through, code, crate_dir, documented_order, sources};

/// The most files that a folder may have: more is a crowd, in which nobody finds a file.
const MOST_FILES: usize = 25;

/// A path of modules, such as `["db", "core", "state"]`.
type Names = Vec<String>;

/// The source files of the library.
struct Sources {
    /// The code of each file by its path. That of a `mod.rs` is its folder's.
    code: BTreeMap<Names, String>,
    folders: BTreeSet<Names>,
}

impl Sources {
    fn read() -> Self {
        let src = crate_dir().join("src");
        let mut files = Vec::new();
        sources(&src, &mut files);
        let mut found = Sources {
            code: BTreeMap::new(),
            folders: BTreeSet::new(),
        };
        for file in files {
            let inside = file.strip_prefix(&src).unwrap().with_extension("");
            let parts = inside.iter().map(|part| part.to_str().unwrap().to_owned());
            let mut names: Names = parts.collect();
            if names.last().unwrap() == "mod" {
                names.pop();
                found.folders.insert(names.clone());
            }
            found.code.insert(names, code(&file));
        }
        found
    }

    /// The file or folder that `path` names: where a folder re-exports a name, the file from which it
    /// comes.
    fn resolve(&self, path: &[String]) -> Option<Names> {
        let known = |n: &usize| self.code.contains_key(&path[..*n]);
        let Some(len) = (1..=path.len()).rev().find(known) else {
            let mut exported = self.exported(&["lib".to_owned()]).into_iter();
            let path = exported.find(|exported| exported.last() == path.first())?;
            return self.resolve(&path);
        };
        let (found, rest) = path.split_at(len);
        let found = found.to_vec();
        let Some(name) = rest.first().filter(|_| self.folders.contains(&found)) else {
            return Some(found);
        };
        let mut exported = self.exported(&found).into_iter();
        match exported.find(|exported| exported.last() == Some(name)) {
            Some(path) => self.resolve(&[found, path].concat()),
            None => Some(found),
        }
    }

    /// The paths of the names that a `mod.rs` or `lib.rs` re-exports.
    fn exported(&self, file: &[String]) -> Vec<Names> {
        let code = &self.code[file];
        let marks = ["pub use ", "pub(crate) use "];
        marks
            .iter()
            .flat_map(|mark| paths_after(code, mark))
            .collect()
    }

    /// The files that a file imports or names by a path, resolved.
    fn imports(&self, file: &Names) -> BTreeSet<Names> {
        let code = &self.code[file];
        let mut found = BTreeSet::new();
        for path in paths_after(code, "crate::") {
            found.extend(self.resolve(&path));
        }
        for path in paths_after(code, "super::") {
            let up = path.iter().take_while(|name| *name == "super").count();
            let Some(stay) = file.len().checked_sub(up + 1) else {
                continue;
            };
            let path: Names = file[..stay].iter().chain(&path[up..]).cloned().collect();
            found.extend(self.resolve(&path));
        }
        found.remove(file);
        found
    }
}

/// The paths that follow each `mark` in a text; a list in braces gives one for each of its items.
fn paths_after(code: &str, mark: &str) -> Vec<Names> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(mark) {
        // The rest of a longer path: that one was found at its beginning.
        if !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            read_paths(&code[at + mark.len()..], &mut Vec::new(), &mut found);
        }
    }
    found
}

/// Reads the path at the beginning of a text, below `above`. Returns the text behind it.
fn read_paths<'a>(text: &'a str, above: &mut Names, found: &mut Vec<Names>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut list) = text.strip_prefix('{') {
        loop {
            list = list.trim_start();
            if let Some(rest) = list.strip_prefix('}') {
                return rest;
            }
            let before = list.len();
            list = read_paths(list, &mut above.clone(), found);
            list = list.trim_start().strip_prefix(',').unwrap_or(list);
            assert!(list.len() < before, "not a list of imports: {list:.60}");
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*');
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    above.push(name.to_owned());
    if let Some(below) = rest.strip_prefix("::") {
        return read_paths(below, above, found);
    }
    found.push(above.clone());
    match rest.strip_prefix(" as ") {
        Some(alias) => alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
        None => rest,
    }
}

/// The place of a file in the table of the document: that of the innermost folder that has a row.
fn rank(order: &[String], names: &[String]) -> Option<usize> {
    let row = |len: usize| {
        let name = names[..len].join("/");
        order.iter().position(|row| *row == name)
    };
    (1..=names.len()).rev().find_map(row)
}

/// The modules whose folders have rows of their own.
fn divided(order: &[String]) -> BTreeSet<&str> {
    let folders = order.iter().filter_map(|row| row.split_once('/'));
    folders.map(|(module, _)| module).collect()
}

#[test]
fn every_folder_of_a_divided_module_has_a_row_and_uses_only_lower_ones() {
    let order = documented_order();
    let sources = Sources::read();
    let divided = divided(&order);
    assert!(divided.len() >= 3, "{divided:?}");
    let mut problems = Vec::new();
    let mut arrows = BTreeSet::new();
    for folder in &sources.folders {
        let is_divided = folder.len() == 2 && divided.contains(&*folder[0]);
        let name = folder.join("/");
        if is_divided && !order.contains(&name) {
            problems.push(format!("{name} has no row"));
        }
    }
    for file in sources.code.keys() {
        let Some(own) = rank(&order, file) else {
            continue;
        };
        for used in sources.imports(file) {
            // `lib` is the root, which re-exports; what has no row is checked elsewhere.
            let Some(rank) = rank(&order, &used) else {
                continue;
            };
            // Only a visibility, or a doc link.
            if file.starts_with(&used) {
                continue;
            }
            arrows.insert((own, rank));
            if rank > own {
                let (file, used) = (file.join("/"), used.join("/"));
                problems.push(format!("{file} uses {used}, which is higher"));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(arrows.len() > 250, "{}: it reads too little", arrows.len());
}

#[test]
fn files_and_folders_of_a_divided_module_are_in_no_circle() {
    let order = documented_order();
    let divided = divided(&order);
    let sources = Sources::read();
    // By the folder in which both are: what imports what.
    let mut imports: BTreeMap<Names, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    let mut found = 0;
    for file in sources.code.keys() {
        for used in sources.imports(file) {
            let same = file.iter().zip(&used).take_while(|(a, b)| a == b).count();
            // A `mod.rs` declares what is in its folder, and what is in it may use that.
            let is_divided = same > 0 && divided.contains(&*file[0]);
            if !is_divided || same == file.len() || same == used.len() {
                continue;
            }
            found += 1;
            let folder = imports.entry(file[..same].to_vec()).or_default();
            let of_file = folder.entry(file[same].clone()).or_default();
            of_file.insert(used[same].clone());
        }
    }
    let mut circles = Vec::new();
    for (folder, imports) in &imports {
        for name in imports.keys() {
            if let Some(circle) = circle_through(name, imports) {
                circles.push(format!("{}: {}", folder.join("/"), circle.join(" -> ")));
            }
        }
    }
    assert!(circles.is_empty(), "{circles:#?}");
    assert!(found > 300, "{found} imports: it reads too little");
}

#[test]
fn no_folder_is_a_crowd() {
    let src = crate_dir().join("src");
    let mut folders = vec![src];
    let mut largest = 0;
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).unwrap();
        let paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        let (inner, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
        let most = MOST_FILES;
        let count = files.len();
        assert!(count <= most, "{} has {count} files", folder.display());
        largest = largest.max(count);
        folders.extend(inner);
    }
    assert!(largest > MOST_FILES / 2, "{largest}: it reads too little");
}

/// The methods of `Shared`, which any file of `db` may define: the calls follow the order of folders,
/// too.
#[test]
fn jobs_and_commits_call_methods_of_lower_folders_only() {
    let order = documented_order();
    let sources = Sources::read();
    let of_db = || sources.code.iter().filter(|(file, _)| file[0] == "db");
    let mut methods: BTreeMap<String, Vec<&Names>> = BTreeMap::new();
    for (file, code) in of_db() {
        for block in code.split("\nimpl Shared {\n").skip(1) {
            let block = block.split("\n}\n").next().unwrap();
            for line in block.lines().filter_map(|line| line.strip_prefix("    ")) {
                let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
                let line = line.strip_prefix("pub(super) ").unwrap_or(line);
                if let Some(name) = line.strip_prefix("fn ") {
                    let end = name.find(['(', '<']).unwrap();
                    let name = name[..end].to_owned();
                    methods.entry(name).or_default().push(file);
                }
            }
        }
    }
    let mut problems = Vec::new();
    let mut calls = 0;
    for (file, code) in of_db() {
        for (method, defined) in &methods {
            let [defined] = defined[..] else { continue };
            let called = ["self", "shared"]
                .iter()
                .any(|on| code.contains(&format!("{on}.{method}(")));
            let passed = code.contains(&format!("Shared::{method}"));
            // A method of the same name of another type.
            let own = code.contains(&format!("fn {method}("));
            if defined == file || own || !(called || passed) {
                continue;
            }
            calls += 1;
            if rank(&order, defined) > rank(&order, file) {
                let (file, defined) = (file.join("/"), defined.join("/"));
                problems.push(format!("{file} calls {method} of {defined}"));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(calls > 100, "{calls} calls: it reads too little");
}
