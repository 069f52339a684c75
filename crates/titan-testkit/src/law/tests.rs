use super::*;

/// A crate with a document in a directory of its own.
fn read(table: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, Crate) {
    let dir = tempfile::tempdir().unwrap();
    let document = format!("# A\n\n## Modules of kit\n\n{table}\n## Other\n\n| `z` | no row |\n");
    let mut all = vec![("docs/architecture.md", document.as_str())];
    all.extend(files);
    for (name, text) in all {
        let path = dir.path().join(name.replace("src/", "crates/kit/src/"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let kit = Crate::read("kit", dir.path().join("crates/kit")).unwrap();
    (dir, kit)
}

const ROOT: (&str, &str) = ("src/lib.rs", "mod high;\nmod low;\npub use high::High;\n");
const TABLE: &str = "| `low`, `high` | owns |\n";

#[test]
fn an_import_of_a_higher_module_is_a_breach() {
    let high = (
        "src/high.rs",
        "use crate::low::Low;\npub struct High(Low);\n",
    );
    for (low, is_breach) in [
        ("pub struct Low;", false),
        ("use crate::high::High;", true),
        ("use crate::{high as other};", true),
        ("use super::high;", true),
        ("fn f() { crate::high::f() }", true),
        // What the root re-exports belongs to the module that defines it.
        ("use crate::High;", true),
        ("// use crate::High;", false),
        ("const A: &str = \"crate::High\";", false),
        ("#[cfg(test)]\nmod tests {\n use crate::High;\n}", false),
    ] {
        let (_dir, kit) = read(TABLE, &[ROOT, high, ("src/low.rs", low)]);
        let breaches = kit.breaches_of_order();
        let expected: &[&str] = if is_breach {
            &["low.rs: high is not below it"]
        } else {
            &[]
        };
        assert_eq!(breaches, expected, "{low}");
    }
}

#[test]
fn the_table_has_every_module_and_no_other() {
    let files = [
        ROOT,
        ("src/high.rs", "pub struct High;"),
        ("src/low.rs", ""),
    ];
    let (_dir, kit) = read("| `low` | owns |\n| `gone` | owns |\n", &files);
    let expected = [
        "gone of the table does not exist",
        "high.rs: high is not in the table",
    ];
    assert_eq!(kit.breaches_of_order(), expected);
}

#[test]
fn the_order_within_a_folder_may_be_in_the_table() {
    let files = [
        ("src/lib.rs", "mod db;"),
        ("src/db/mod.rs", "mod core;\nmod jobs;\npub use core::Core;"),
        ("src/db/core/mod.rs", "mod state;\npub struct Core;"),
        ("src/db/core/state.rs", "use crate::db::jobs::flush;"),
        ("src/db/jobs.rs", "use super::Core;\npub fn flush() {}"),
    ];
    let (_dir, kit) = read("| `db/core` | owns |\n| `db/jobs` | owns |\n", &files);
    assert_eq!(
        kit.breaches_of_order(),
        ["db/core/state.rs: db/jobs is not below it"]
    );
    assert_eq!(kit.breaches_of_circles(), ["db: core -> jobs -> core"]);
    // Without rows for the folders, their order is not stated, but circles are still found.
    let (_dir, kit) = read("| `db` | owns |\n", &files);
    assert_eq!(kit.breaches_of_order(), [""; 0]);
    assert_eq!(kit.breaches_of_circles().len(), 1);
}

#[test]
fn a_circle_of_files_is_a_breach() {
    let files = [
        ("src/lib.rs", "mod room;"),
        ("src/room/mod.rs", "mod a;\nmod b;\nmod c;\npub use a::A;"),
        ("src/room/a.rs", "use super::b::B;\npub struct A;"),
        ("src/room/b.rs", "use super::c::C;\npub struct B;"),
        ("src/room/c.rs", "pub struct C(super::A);"),
    ];
    let (_dir, kit) = read("| `room` | owns |\n", &files);
    assert_eq!(kit.breaches_of_circles(), ["room: a -> b -> c -> a"]);
}

#[test]
fn large_structs_and_files_are_breaches() {
    let fields = |n: usize| {
        (0..n).fold(String::new(), |text, i| {
            text + &format!("    pub f{i}: u8,\n")
        })
    };
    let mut root = format!("mod beneath;\npub struct Large {{\n{}}}\n", fields(13));
    root += &format!("pub struct Small {{\n{}}}\n", fields(12));
    let private = fields(13).replace("pub ", "");
    root += &format!("struct Own {{\n{private}}}\nstruct Shared {{\n{private}}}\n");
    root += "impl Own {}\nimpl Shared {}\n";
    let long = "\n".repeat(601);
    let files = [
        ("src/lib.rs", root.as_str()),
        ("src/beneath.rs", "impl super::Shared {}"),
        ("src/a.rs", long.as_str()),
    ];
    let (_dir, kit) = read("", &files);
    let breaches = |records| kit.breaches_of_sizes(records).unwrap();
    let (large, shared, file) = (
        "lib.rs: struct Large has 13 fields",
        "lib.rs: struct Shared has 13 fields",
        "src/a.rs has 601 lines",
    );
    assert_eq!(breaches(&["Large"]), [shared, file]);
    assert_eq!(breaches(&[]), [large, shared, file]);
    let unused = "Small is no struct of more than 12 fields";
    assert_eq!(breaches(&["Large", "Shared", "Small"]), [unused, file]);
}

#[test]
#[should_panic(expected = "exceptions that nothing needs")]
fn an_exception_that_nothing_needs_has_to_go() {
    assert_none(vec!["a: b".to_owned()], &["a", "c"]);
}

#[test]
#[should_panic(expected = "1 breaches")]
fn an_exception_excuses_one_breach() {
    assert_none(vec!["a: b".to_owned(), "a: c".to_owned()], &["a"]);
}
