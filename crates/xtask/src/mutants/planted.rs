//! Planted bugs as files: `mutants/NAME.patch`.

use std::fs;
use std::path::PathBuf;

/// One planted bug.
pub(super) struct Mutant {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) plants: String,
    /// What follows `cargo test`.
    pub(super) test: Vec<String>,
    pub(super) patch: String,
}

impl Mutant {
    fn parse(name: &str, text: &str) -> Result<Mutant, String> {
        let (header, patch) = text
            .split_once("\n\n")
            .ok_or_else(|| format!("{name}: no empty line behind the header"))?;
        let field = |key: &str| {
            let value = header.lines().find_map(|l| l.strip_prefix(key));
            let value = value.map(|v| v.trim().to_owned());
            value.ok_or_else(|| format!("{name}: no line '{key}'"))
        };
        Ok(Mutant {
            name: name.to_owned(),
            kind: field("Kind:")?,
            plants: field("Plants:")?,
            test: field("Test:")?
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            patch: patch.to_owned(),
        })
    }
}

/// The mutants of these names, or all; in the order of their names.
pub(super) fn load(names: &[String]) -> Result<Vec<Mutant>, String> {
    let dir = crate::root().join("mutants");
    let mut files: Vec<PathBuf> = fs::read_dir(&dir)
        .map_err(|e| format!("{}: {e}", dir.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "patch"))
        .collect();
    files.sort();
    let mut mutants = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        if names.is_empty() || names.iter().any(|n| *n == name) {
            let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            mutants.push(Mutant::parse(&name, &text)?);
        }
    }
    match names
        .iter()
        .find(|n| !mutants.iter().any(|m| m.name == **n))
    {
        Some(unknown) => Err(format!("no mutant is called {unknown}; see --list")),
        None => Ok(mutants),
    }
}
