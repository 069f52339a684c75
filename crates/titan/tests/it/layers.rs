//! The imports of the engine follow the order of modules in `docs/architecture.md`, and the files of
//! a module do not import each other in circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files with code that only tests, models and fuzz targets compile.
const TEST_FILES: [&str; 8] = [
    "tests",
    "tests.rs",
    "models.rs",
    "fuzzing",
    "fuzzing.rs",
    "recorded.rs",
    "races",
    "gates",
];

pub(crate) fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The modules, the lowest first, as in the table of the document.
pub(crate) fn documented_order() -> Vec<String> {
    let text = std::fs::read_to_string(crate_dir().join("../../docs/architecture.md")).unwrap();
    let (_, text) = text.split_once("\n## Modules of titan\n").unwrap();
    let (table, _) = text.split_once("\n## ").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let names = rows.flat_map(|row| row.split('|').nth(1).unwrap().split(','));
    names
        .map(|name| name.trim().trim_matches('`').to_owned())
        .collect()
}

/// Every source file of the library.
pub(crate) fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let is_test = TEST_FILES.contains(&&*name)
            || name.ends_with("_tests")
            || name.ends_with("_tests.rs")
            || name.ends_with("_models.rs");
        match path.is_dir() {
            _ if is_test => {}
            true => sources(&path, found),
            false if name.ends_with(".rs") => found.push(path),
            false => {}
        }
    }
}

/// A file without comments and without the module of tests at its end.
pub(crate) fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let is_inline_module = |line: &str| line.starts_with("mod ") && line.ends_with('{');
    let lines = text.lines().take_while(|line| !is_inline_module(line));
    lines.fold(String::new(), |code, line| {
        code + line.split("//").next().unwrap() + "\n"
    })
}

/// The module to which each name belongs that `lib.rs` re-exports.
fn names_of_the_root(src: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(src.join("lib.rs")).unwrap();
    let mut names = BTreeMap::new();
    for statement in text.split("pub use ").skip(1) {
        let (path, _) = statement.split_once(';').unwrap();
        let (module, rest) = path.split_once("::").unwrap();
        let given = rest.split(|c: char| !c.is_alphanumeric() && c != '_');
        for name in given.filter(|name| !name.is_empty()) {
            names.insert(name.to_owned(), module.to_owned());
        }
    }
    names
}

/// What follows each `crate::` in a text, up to the end of the name.
fn imported(code: &str) -> impl Iterator<Item = &str> {
    let after = code.split("crate::").skip(1);
    after.map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        rest.split_at(end.unwrap_or(rest.len())).0
    })
}

#[test]
fn modules_use_only_lower_ones() {
    let order = documented_order();
    let rank = |module: &str| order.iter().position(|m| m == module);
    let src = crate_dir().join("src");
    for module in &order {
        let exists = src.join(module).is_dir() || src.join(format!("{module}.rs")).is_file();
        assert!(exists, "{module} of the table does not exist");
    }
    let roots = names_of_the_root(&src);
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut problems = Vec::new();
    let mut imports = 0;
    for path in files {
        let inside = path.strip_prefix(&src).unwrap();
        let first = inside.components().next().unwrap().as_os_str();
        let module = first.to_str().unwrap().trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let Some(own) = rank(module) else {
            problems.push(format!("{module} is not in the table"));
            continue;
        };
        for name in imported(&code(&path)) {
            let used = roots.get(name).map_or(name, String::as_str);
            imports += 1;
            match rank(used) {
                Some(used) if used <= own => {}
                Some(_) => problems.push(format!(
                    "{}: {name} is of a higher module",
                    inside.display()
                )),
                None if used == "fuzzing" => {}
                None => problems.push(format!(
                    "{}: {name} is of no module of the table",
                    inside.display()
                )),
            }
        }
    }
    assert!(
        imports > 500,
        "{imports} imports found: the test reads too little"
    );
    assert!(problems.is_empty(), "{problems:#?}");
}

/// The names after `super::` and `crate::MODULE::` in the code of a file: those of its siblings, and
/// others.
fn imported_siblings(code: &str, module: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for prefix in ["super::".to_owned(), format!("crate::{module}::")] {
        for rest in code.split(&prefix).skip(1) {
            let list = match rest.strip_prefix('{') {
                Some(list) => list.split('}').next().unwrap(),
                None => rest.split(';').next().unwrap(),
            };
            for path in list.split(',') {
                let path = path.trim_start();
                let end = path.find(|c: char| !c.is_alphanumeric() && c != '_');
                names.insert(path.split_at(end.unwrap_or(path.len())).0.to_owned());
            }
        }
    }
    names
}

/// The files from which a file can be reached by imports that start from it.
pub(crate) fn circle_through(
    file: &str,
    imports: &BTreeMap<String, BTreeSet<String>>,
) -> Option<Vec<String>> {
    let mut paths = vec![vec![file.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(path) = paths.pop() {
        let last = path.last().unwrap();
        for next in imports.get(last).into_iter().flatten() {
            let mut longer = path.clone();
            longer.push(next.clone());
            if next == file {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                paths.push(longer);
            }
        }
    }
    None
}

#[test]
fn files_of_a_module_are_in_no_circle() {
    let src = crate_dir().join("src");
    let mut circles = Vec::new();
    let mut imports_found = 0;
    for module in documented_order() {
        let dir = src.join(&module);
        if !dir.is_dir() {
            continue;
        }
        let module = module.replace('/', "::");
        let mut files = Vec::new();
        sources(&dir, &mut files);
        let mut imports = BTreeMap::new();
        for path in &files {
            let inside = path.strip_prefix(&dir).unwrap();
            // Folders within a module are read by their own files.
            if inside.components().count() > 1 || inside.ends_with("mod.rs") {
                continue;
            }
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let mut siblings = imported_siblings(&code(path), &module);
            siblings
                .retain(|sibling| *sibling != name && dir.join(format!("{sibling}.rs")).is_file());
            imports_found += siblings.len();
            imports.insert(name, siblings);
        }
        for file in imports.keys() {
            if let Some(circle) = circle_through(file, &imports) {
                circles.push(format!("{module}: {}", circle.join(" -> ")));
            }
        }
    }
    assert!(
        imports_found > 200,
        "{imports_found} imports found: the test reads too little"
    );
    assert!(circles.is_empty(), "{circles:#?}");
}

/// Structs that are data, not parts of the engine: one field for each field of a format, for each
/// option of a call, or for each number that users are shown.
const RECORDS: [&str; 5] = [
    "FamilyMetrics",
    "Metrics",
    "NewFile",
    "TableProperties",
    "VersionEdit",
];

/// The structs of a file that other files may touch, with the number of their fields.
fn shared_structs(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for part in code.split("struct ").skip(1) {
        let end = part.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        let Some((head, body)) = rest.split_once("{\n") else {
            continue;
        };
        if head.contains(';') || head.contains('(') {
            continue;
        }
        let body = body.split_once("\n}").map_or(body, |(body, _)| body);
        let is_field = |line: &&str| {
            let line = line.strip_prefix("    ").unwrap_or_default();
            let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
            let line = line.strip_prefix("pub(super) ").unwrap_or(line);
            let name = line.strip_prefix("pub ").unwrap_or(line).split(':').next();
            let name = name.unwrap_or_default();
            line.contains(':')
                && !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_lowercase() || c == '_' || c.is_numeric())
        };
        let fields = body.lines().filter(is_field).count();
        if body.contains("    pub") {
            found.push((name.to_owned(), fields));
        }
    }
    found
}

/// A struct with many fields that many files change has no owner.
#[test]
fn no_struct_that_several_files_touch_has_more_than_twelve_fields() {
    let src = crate_dir().join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut problems = Vec::new();
    let (mut counted, mut largest) = (0, 0);
    for path in files {
        for (name, fields) in shared_structs(&code(&path)) {
            counted += 1;
            if RECORDS.contains(&&*name) {
                continue;
            }
            largest = largest.max(fields);
            if fields > 12 {
                problems.push(format!("{name} in {} has {fields}", path.display()));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(
        counted > 100 && largest == 12,
        "{counted} structs, {largest} fields: the test sees too little"
    );
}

/// What reads damaged tables is not part of reading, writing or compacting.
#[test]
fn only_tools_read_damaged_tables() {
    let src = crate_dir().join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let names = ["dissect", "Salvage", "LostPart", "BlockAt"];
    let mut uses = 0;
    for path in files {
        let inside = path.strip_prefix(&src).unwrap();
        let code = code(&path);
        let used = names.iter().any(|name| code.contains(name));
        let allowed = inside.starts_with("tools")
            || inside.starts_with("table/forensics")
            || inside == Path::new("table/mod.rs");
        assert!(
            allowed || !used,
            "{} uses one of {names:?}",
            inside.display()
        );
        uses += usize::from(used && inside.starts_with("tools"));
    }
    assert!(uses > 2, "{uses} files of tools");
}
