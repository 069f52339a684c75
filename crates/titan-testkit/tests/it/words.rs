//! The laws of words (`titan_testkit::law::words`).

use std::collections::BTreeMap;
use std::path::Path;

use titan_testkit::law::words::{self, Breach, Workspace};

fn workspace() -> Workspace {
    Workspace::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// Fails if there are breaches, and shows them by crate.
fn assert_none(breaches: &[Breach]) {
    let mut parts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for breach in breaches {
        parts
            .entry(breach.part())
            .or_default()
            .push(breach.to_string());
    }
    let mut text = String::new();
    for (part, breaches) in parts {
        text += &format!("{part}: {}\n{}\n", breaches.len(), breaches.join("\n"));
    }
    assert!(text.is_empty(), "\n{text}");
}

#[test]
fn lines_of_comments_have_at_most_a_hundred_columns() {
    assert_none(&words::wide(&workspace()));
}

#[test]
fn no_paragraph_of_a_doc_comment_begins_with_a_clause() {
    assert_none(&words::openings(&workspace()));
}

#[test]
fn files_that_are_named_exist() {
    // Programs of this workspace write the first. Four crates have the second.
    let others = ["report.md", "mutants.toml"];
    assert_none(&words::paths(&workspace(), &others));
}

#[test]
fn links_of_documents_lead_somewhere() {
    assert_none(&words::links(&workspace()));
}

#[test]
fn folders_have_at_most_25_files() {
    // Directories of databases, inputs of fuzz targets, and records that are never rewritten.
    let data = ["crates/titan/tests/fixtures", "fuzz/corpus", "docs/adr"];
    assert_none(&words::crowded(&workspace(), &data));
}

/// The guides, `README.md` and the pages of the crates.
#[test]
fn documents_have_at_most_35_000_words() {
    let words = words::count(&workspace(), |file| {
        let is_of_crate = file.starts_with("crates") && file.iter().count() == 3;
        file.parent() == Some(Path::new("docs"))
            || file == Path::new("README.md")
            || is_of_crate && file.ends_with("README.md")
    });
    assert!(words <= 35_000, "{words}");
}

#[test]
fn decision_records_have_at_most_15_000_words() {
    let words = words::count(&workspace(), |file| file.starts_with("docs/adr"));
    assert!(words <= 15_000, "{words}");
}

/// A registry shows the page of a package without the files around it.
#[test]
fn pages_of_libraries_link_to_no_files() {
    for name in ["titan", "titan-ime", "titan-mvcc", "titan-tools"] {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
        let page = std::fs::read_to_string(page.join("README.md")).unwrap();
        for link in page.split("](").skip(1) {
            assert!(link.starts_with("https://"), "{name}: {link}");
        }
        assert!(page.contains("[dependencies]"), "{name}");
    }
}
