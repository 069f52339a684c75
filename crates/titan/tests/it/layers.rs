//! The imports of the engine follow the order of modules in `docs/architecture.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files with code that only tests, models and fuzz targets compile.
const TEST_FILES: [&str; 4] = ["tests", "tests.rs", "models.rs", "fuzzing"];

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The modules, the lowest first, as in the table of the document.
fn documented_order() -> Vec<String> {
    let text = std::fs::read_to_string(crate_dir().join("../../docs/architecture.md")).unwrap();
    let (_, text) = text.split_once("## Modules").unwrap();
    let (table, _) = text.split_once("\n## ").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Every source file of the library.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let is_test = TEST_FILES.contains(&&*name)
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
fn code(path: &Path) -> String {
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
