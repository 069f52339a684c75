//! The order of modules in the document.

use std::collections::BTreeSet;

use super::sources::Sources;

/// The modules of a crate's table, the lowest first; none if there is no table.
pub(super) fn documented(document: &str, name: &str) -> Vec<Vec<String>> {
    let (_, section) = document
        .split_once(&format!("\n## Modules of {name}\n"))
        .unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names
        .map(|name| name.split('/').map(str::to_owned).collect())
        .collect()
}

/// The place in the order of the longest row that is the module or one above it. A module that has
/// only its inner modules in the table is as high as the highest of them.
fn rank(order: &[Vec<String>], module: &[String]) -> Option<usize> {
    let outer = (0..order.len()).filter(|at| module.starts_with(&order[*at]));
    let outer = outer.max_by_key(|at| order[*at].len());
    outer.or_else(|| order.iter().rposition(|row| row.starts_with(module)))
}

pub(super) fn breaches(sources: &Sources, order: &[Vec<String>]) -> Vec<String> {
    let mut breaches = BTreeSet::new();
    for (at, row) in order.iter().enumerate() {
        if !sources.0.contains_key(row) {
            breaches.insert(format!("{} of the table does not exist", row.join("/")));
        }
        if order[..at].contains(row) {
            breaches.insert(format!("{} is twice in the table", row.join("/")));
        }
    }
    let imports = sources.imports();
    for (own, used) in &imports {
        // The root declares and re-exports all others.
        if own.is_empty() {
            continue;
        }
        let file = sources.0[*own].file.display();
        let Some(own) = rank(order, own) else {
            breaches.insert(format!("{file}: {} is not in the table", own.join("/")));
            continue;
        };
        for module in used {
            match rank(order, module) {
                _ if module.is_empty() => {
                    breaches.insert(format!("{file}: uses an item of the root of the crate"));
                }
                Some(used) if used > own => {
                    let module = module.join("/");
                    breaches.insert(format!("{file}: {module} is not below it"));
                }
                Some(_) | None => {}
            }
        }
    }
    breaches.into_iter().collect()
}
