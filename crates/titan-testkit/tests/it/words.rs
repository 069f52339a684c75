//! The laws of words (`titan_testkit::law::words`).

use std::collections::BTreeMap;
use std::path::Path;

use titan_testkit::law::words::{self, Breach, Workspace};

fn workspace() -> Workspace {
    Workspace::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// Fails if there are breaches, in a crate with a debt if there are more than that.
fn assert_at_most(breaches: &[Breach], debts: &[(&str, usize)]) {
    let mut parts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for breach in breaches {
        parts
            .entry(breach.part())
            .or_default()
            .push(breach.to_string());
    }
    let debt = |part: &str| {
        debts
            .iter()
            .find(|(name, _)| *name == part)
            .map_or(0, |(_, n)| *n)
    };
    let mut text = String::new();
    for (part, breaches) in parts {
        if breaches.len() > debt(part) {
            let (found, allowed) = (breaches.len(), debt(part));
            text += &format!(
                "{part}: {found}, allowed {allowed}\n{}\n",
                breaches.join("\n")
            );
        }
    }
    assert!(text.is_empty(), "\n{text}");
}

#[test]
fn lines_of_comments_have_at_most_a_hundred_columns() {
    // May only shrink.
    let debts = [("tifs", 1)];
    assert_at_most(&words::wide(&workspace()), &debts);
}

#[test]
fn no_doc_comment_begins_with_a_clause() {
    assert_at_most(&words::openings(&workspace()), &[]);
}

#[test]
fn files_that_are_named_exist() {
    // Programs of this workspace write the first. Four crates have the second.
    let others = ["report.md", "mutants.toml"];
    assert_at_most(&words::paths(&workspace(), &others), &[]);
}

#[test]
fn links_of_documents_lead_somewhere() {
    assert_at_most(&words::links(&workspace()), &[]);
}
