//! Circles of imports.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::Sources;

type Graph = BTreeMap<String, BTreeSet<String>>;

/// The circles in each folder, whose nodes are the files and folders in it. The file of a folder
/// itself (`mod.rs`, or the file beside the folder) is a node of it too.
pub(super) fn breaches(sources: &Sources) -> Vec<String> {
    let mut folders: BTreeMap<Vec<String>, Graph> = BTreeMap::new();
    for (own, used) in sources.imports() {
        for used in used {
            let common = own.iter().zip(used).take_while(|(a, b)| a == b).count();
            let node = |path: &[String]| match path.get(common) {
                Some(name) => name.clone(),
                None => "mod".to_owned(),
            };
            let folder = folders.entry(own[..common].to_vec()).or_default();
            folder.entry(node(own)).or_default().insert(node(used));
        }
    }
    let mut breaches = Vec::new();
    for (folder, mut graph) in folders {
        // The root of a crate declares and re-exports all others.
        if folder.is_empty() {
            graph.remove("mod");
        }
        while let Some(circle) = shortest_circle(&graph) {
            let folder = if folder.is_empty() {
                "src".to_owned()
            } else {
                folder.join("/")
            };
            breaches.push(format!("{folder}: {}", circle.join(" -> ")));
            // The next one has another arrow.
            if let Some(used) = graph.get_mut(&circle[0]) {
                used.remove(&circle[1]);
            }
        }
    }
    breaches
}

fn shortest_circle(graph: &Graph) -> Option<Vec<String>> {
    let circles = graph.keys().filter_map(|start| circle_from(start, graph));
    circles.min_by_key(Vec::len)
}

fn circle_from(start: &str, graph: &Graph) -> Option<Vec<String>> {
    let mut paths = vec![vec![start.to_owned()]];
    let mut seen = BTreeSet::new();
    while !paths.is_empty() {
        let mut longer = Vec::new();
        for path in paths {
            for next in path
                .last()
                .and_then(|last| graph.get(last))
                .into_iter()
                .flatten()
            {
                let mut path = path.clone();
                path.push(next.clone());
                if next == start {
                    return Some(path);
                }
                if seen.insert(next.clone()) {
                    longer.push(path);
                }
            }
        }
        paths = longer;
    }
    None
}
