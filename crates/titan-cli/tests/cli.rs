//! The `titan` command as a user meets it: the binary, run against directories of its own.

#![expect(clippy::unwrap_used, reason = "what fails a test may end it")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory in which commands run.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: impl AsRef<Path>, contents: impl AsRef<[u8]>) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_titan"));
        command
            .current_dir(self.0.path())
            .args(args)
            .stdin(Stdio::null());
        command
    }

    fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Standard output of a command that succeeds and says nothing on standard error.
    fn ok<S: AsRef<OsStr>>(&self, args: &[S]) -> Vec<u8> {
        let output = self.run(args);
        let args: Vec<_> = args.iter().map(AsRef::as_ref).collect();
        assert!(output.status.success(), "{args:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
        output.stdout
    }

    fn text<S: AsRef<OsStr>>(&self, args: &[S]) -> String {
        String::from_utf8(self.ok(args)).unwrap()
    }

    fn json<S: AsRef<OsStr>>(&self, args: &[S]) -> Value {
        serde_json::from_slice(&self.ok(args)).unwrap()
    }

    /// Standard error of a command that ends with this status.
    fn fails<S: AsRef<OsStr>>(&self, status: i32, args: &[S]) -> String {
        let output = self.run(args);
        let args: Vec<_> = args.iter().map(AsRef::as_ref).collect();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// Every file under a directory with its contents.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(root).unwrap().to_owned();
                found.insert(name, fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

fn odd_tree(place: &Place) {
    let big: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    place.write("tree/a b.txt", "with a space");
    place.write("tree/empty", "");
    place.write("tree/ünï/日本.txt", "名");
    place.write("tree/deep/er/est", vec![0, 255, 10, 13]);
    place.write("tree/-dash", "-");
    place.write("tree/new\nline", "n");
    place.write("tree/.hidden", "h");
    place.write("tree/big", big);
    place.write(
        Path::new("tree").join(OsStr::from_bytes(b"no\xffutf8")),
        "x",
    );
}

#[test]
fn a_tree_comes_back_as_it_was() {
    let place = Place::new();
    odd_tree(&place);
    symlink("/etc/passwd", place.path("tree/link")).unwrap();
    let summary = place.json(&["load", "db", "./tree", "--json"]);
    fs::remove_file(place.path("tree/link")).unwrap();
    assert_eq!(
        (&summary["files"], &summary["failed"]),
        (&9.into(), &0.into())
    );
    assert_eq!(
        (&summary["skipped"], &summary["live"]["keys"]),
        (&1.into(), &9.into())
    );
    assert!(
        summary["disk"]["blob_bytes"].as_u64().unwrap() > 3_000_000,
        "{summary}"
    );

    assert_eq!(place.ok(&["get", "db", "tree/a b.txt"]), b"with a space");
    let text = place.text(&["dump", "db", "out"]);
    assert!(text.starts_with("9 files, 2.86 MiB"), "{text}");
    assert_eq!(tree(&place.path("out/tree")), tree(&place.path("tree")));

    // What is there is left alone, unless one insists.
    let said = place.fails(1, &["dump", "db", "out"]);
    assert!(said.contains("titan: already exists: write:"), "{said}");
    place.ok(&["dump", "db", "out", "--force"]);
    assert_eq!(tree(&place.path("out/tree")), tree(&place.path("tree")));
}

#[test]
fn absolute_paths_are_keys_and_restored_inside() {
    let place = Place::new();
    place.write("tree/x", "1");
    let absolute = place.path("tree");
    let summary = place.json(&["load", "db", absolute.to_str().unwrap(), "--json"]);
    assert_eq!(summary["files"], 1);
    let key = absolute.join("x");
    assert_eq!(place.ok(&["get", "db", key.to_str().unwrap()]), b"1");
    place.ok(&["dump", "db", "out"]);
    let restored = place.path("out").join(key.strip_prefix("/").unwrap());
    assert_eq!(fs::read(restored).unwrap(), b"1");
}

#[test]
fn what_cannot_be_loaded_is_reported_and_the_rest_is_loaded() {
    let place = Place::new();
    place.write("tree/x", "1");
    symlink("tree", place.path("link")).unwrap();
    let said = place.fails(1, &["load", "db", "missing", "link", "tree"]);
    assert!(said.contains("titan: not found: read: missing"), "{said}");
    assert!(said.contains("links are not followed: link"), "{said}");
    assert!(said.contains("2 not loaded"), "{said}");
    assert_eq!(place.ok(&["get", "db", "tree/x"]), b"1");
}

#[test]
fn the_database_does_not_load_itself() {
    let place = Place::new();
    place.write("x", "1");
    assert_eq!(place.json(&["load", "db", ".", "--json"])["files"], 1);
    assert_eq!(place.text(&["scan", "db"]), "x : 1\n");
}

#[test]
fn nothing_is_written_outside_the_directory_of_a_dump() {
    let place = Place::new();
    place.ok(&["put", "db", "../escaped", "1"]);
    place.ok(&["put", "db", "link/escaped", "1"]);
    place.ok(&["put", "db", "inside", "1"]);
    fs::create_dir_all(place.path("out")).unwrap();
    fs::create_dir_all(place.path("elsewhere")).unwrap();
    symlink(place.path("elsewhere"), place.path("out/link")).unwrap();
    let said = place.fails(1, &["dump", "db", "out"]);
    assert!(said.contains("`../escaped` has `..` in it"), "{said}");
    assert!(said.contains("2 not restored"), "{said}");
    assert!(!place.path("escaped").exists());
    assert!(tree(&place.path("elsewhere")).is_empty());
    assert_eq!(fs::read(place.path("out/inside")).unwrap(), b"1");
}

#[test]
fn put_get_delete() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    assert_eq!(place.ok(&["get", "db", "k"]), b"v");
    assert_eq!(place.ok(&["get", "db", "0x6b"]), b"v");
    place.ok(&["put", "db", "0x00FF", "0x0001ff"]);
    assert_eq!(place.ok(&["get", "db", "0x00ff"]), [0, 1, 255]);
    let json = place.json(&["get", "db", "0x00ff", "--json"]);
    assert_eq!(
        json.to_string(),
        r#"{"key_hex":"0x00FF","value_hex":"0x0001FF"}"#
    );

    place.write("file", vec![7; 100_000]);
    place.ok(&["put", "db", "large", "--file", "file"]);
    assert_eq!(place.ok(&["get", "db", "large"]), vec![7; 100_000]);

    let mut put = place
        .command(&["put", "db", "piped", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    put.stdin.take().unwrap().write_all(b"from a pipe").unwrap();
    assert!(put.wait().unwrap().success());
    assert_eq!(place.ok(&["get", "db", "piped"]), b"from a pipe");

    place.ok(&["delete", "db", "k"]);
    assert_eq!(
        place.fails(1, &["get", "db", "k"]),
        "titan: not found: key k\n"
    );
    assert!(
        place
            .fails(1, &["get", "db", "0xf"])
            .starts_with("titan: invalid argument: 0xf")
    );
}

#[test]
fn listed_keys_are_deleted() {
    let place = Place::new();
    for number in 0..2000 {
        place.write(format!("tree/{number:04}"), number.to_string());
    }
    place.ok(&["load", "db", "tree"]);
    place.ok(&["put", "db", "0x0aff", "no text"]);
    let odd = (1..2000).step_by(2).map(|n| format!("tree/{n:04}\n"));
    place.write("list", odd.collect::<String>() + "nowhere\n0x0AFF");
    assert_eq!(
        place.text(&["delete", "db", "--from-file", "list"]),
        "1,002 keys deleted, or not there\n"
    );
    let left = place.text(&["scan", "db", "--keys-only"]);
    let even = (0..2000).step_by(2).map(|n| format!("tree/{n:04}\n"));
    assert_eq!(left, even.collect::<String>());

    // A line that is no key is found before anything is deleted.
    place.write("wrong", "tree/0000\n0x0\n");
    let told = place.fails(1, &["delete", "db", "--from-file", "wrong"]);
    assert!(told.contains("line 2: 0x0 is not"), "{told}");
    assert_eq!(place.ok(&["get", "db", "tree/0000"]), b"0");

    let mut delete = place
        .command(&["delete", "db", "--from-file", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let all = place.ok(&["scan", "db", "--keys-only", "--hex"]);
    delete.stdin.take().unwrap().write_all(&all).unwrap();
    let output = delete.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["keys"], 1000, "{output:?}");
    assert_eq!(place.text(&["scan", "db"]), "");
}

#[test]
fn column_families_are_apart() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "default"]);
    place.ok(&["put", "db", "k", "other", "--cf", "pages"]);
    assert_eq!(place.ok(&["get", "db", "k"]), b"default");
    assert_eq!(place.ok(&["get", "db", "k", "--cf", "pages"]), b"other");
    assert_eq!(place.text(&["scan", "db", "--cf", "pages"]), "k : other\n");
    let said = place.fails(1, &["get", "db", "k", "--cf", "pagse"]);
    assert_eq!(
        said,
        "titan: not found: column family pagse; there are: default, pages\n"
    );
    let stats = place.json(&["stats", "db", "--json"]);
    assert_eq!(stats["families"][1]["name"], "pages");
}

#[test]
fn scan_selects_and_shows() {
    let place = Place::new();
    for (key, value) in [
        ("a", "1"),
        ("b1", "2"),
        ("b2", "3"),
        ("c", "4"),
        ("0x64ff", "0x0a7f"),
    ] {
        place.ok(&["put", "db", key, value]);
    }
    let scan = |args: &[&str]| place.text(&[&["scan", "db"], args].concat());
    assert_eq!(
        scan(&[]),
        "a : 1\nb1 : 2\nb2 : 3\nc : 4\nd\\xFF : \\n\\x7F\n"
    );
    assert_eq!(scan(&["--from", "b", "--to", "b2"]), "b1 : 2\n");
    assert_eq!(scan(&["--from", "b2", "--limit", "2"]), "b2 : 3\nc : 4\n");
    assert_eq!(scan(&["--prefix", "b"]), "b1 : 2\nb2 : 3\n");
    assert_eq!(scan(&["--prefix", "b", "--reverse"]), "b2 : 3\nb1 : 2\n");
    assert_eq!(scan(&["--prefix", "b", "--from", "b2"]), "b2 : 3\n");
    assert_eq!(
        scan(&["--reverse", "--keys-only", "--to", "c", "--limit", "2"]),
        "b2\nb1\n"
    );
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(scan(&["--prefix", "x"]), "");
    assert_eq!(
        scan(&["--from", "c", "--hex"]),
        "0x63 : 0x34\n0x64FF : 0x0A7F\n"
    );
    assert_eq!(
        scan(&["--from", "c", "--json"]),
        "{\"key\":\"c\",\"value\":\"4\"}\n{\"key_hex\":\"0x64FF\",\"value\":\"\\n\u{7f}\"}\n"
    );
    assert_eq!(
        scan(&["--prefix", "a", "--json", "--hex"]),
        "{\"key\":\"0x61\",\"value\":\"0x31\"}\n"
    );
    assert_eq!(
        scan(&["--prefix", "a", "--json", "--keys-only"]),
        "{\"key\":\"a\"}\n"
    );
}

#[test]
fn scan_in_hexadecimal_is_what_ldb_prints() {
    let place = Place::new();
    for (key, value) in [("a", ""), ("0x00ff", "0xdeadbeef"), ("日", "n")] {
        place.ok(&["put", "db", key, value]);
    }
    let Ok(ldb) = Command::new("ldb")
        .args(["scan", "--hex"])
        .arg(format!("--db={}", place.path("db").display()))
        .output()
    else {
        eprintln!("ldb is not installed; not compared");
        return;
    };
    assert!(ldb.status.success(), "{ldb:?}");
    let ours = place.text(&["scan", "db", "--hex"]);
    assert_eq!(ours, String::from_utf8_lossy(&ldb.stdout));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    place.write(
        "records",
        "{\"k\":\"".to_owned() + &"x".repeat(20_000) + "\"}\n",
    );
    for i in 0..20 {
        place.ok(&["put", "db", &format!("{i:02}"), "--file", "records"]);
    }
    let mut scan = place
        .command(&["scan", "db"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    scan.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = scan.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

#[test]
fn records_of_lines_of_json() {
    let place = Place::new();
    let lines =
        "{\"id\": 7, \"name\": \"é\"}\n\n  {\"id\":\"x\"}\r\n{\"name\":1}\nnonsense\n{\"id\":true}";
    place.write("records.jsonl", lines);
    let said = place.fails(
        1,
        &[
            "load",
            "db",
            "records.jsonl",
            "--format",
            "jsonl",
            "--key",
            "id",
        ],
    );
    assert!(
        said.contains("line 4: no field id: records.jsonl"),
        "{said}"
    );
    assert!(
        said.contains("line 5: ") && said.contains("2 not loaded"),
        "{said}"
    );
    assert_eq!(
        place.text(&["scan", "db"]),
        "7 : {\"id\": 7, \"name\": \"é\"}\ntrue : {\"id\":true}\nx : {\"id\":\"x\"}\n"
    );
}

#[test]
fn records_of_comma_separated_values() {
    let place = Place::new();
    let rows = "name,email,\"a \"\"note\"\"\"\nBob,b@x,\"one\ntwo\"\nshort,row\nAnn,a@x,\"1,2\"\n";
    place.write("in/people.csv", rows);
    let said = place.fails(
        1,
        &["load", "db", "in", "--format", "csv", "--key", "email"],
    );
    assert!(
        said.contains("2 fields where the names are 3: in/people.csv"),
        "{said}"
    );
    assert_eq!(
        place.text(&["scan", "db"]),
        "a@x : {\"name\":\"Ann\",\"email\":\"a@x\",\"a \\\\\"note\\\\\"\":\"1,2\"}\n\
         b@x : {\"name\":\"Bob\",\"email\":\"b@x\",\"a \\\\\"note\\\\\"\":\"one\\\\ntwo\"}\n"
    );
    let said = place.fails(1, &["load", "db", "in", "--format", "csv", "--key", "mail"]);
    assert!(said.contains("no field mail"), "{said}");
    assert!(
        place
            .fails(2, &["load", "db", "in", "--format", "csv"])
            .contains("--key")
    );
}

#[test]
fn a_configuration_is_obeyed_or_refused() {
    let place = Place::new();
    place.write("good.toml", place.text(&["options"]));
    place.ok(&["put", "db", "k", "v", "--config", "good.toml"]);
    place.write(
        "small.toml",
        "[default]\nmin_blob_size = 10\n[families.new]\n",
    );
    let value = "longer than ten bytes";
    place.ok(&["put", "db", "long", value, "--config", "small.toml"]);
    place.ok(&["compact", "db", "--config", "small.toml"]);
    let stats = place.json(&["stats", "db", "--json"]);
    assert_eq!(stats["families"][0]["blob_files"], 1, "{stats}");
    assert_eq!(stats["families"][1]["name"], "new");
    assert_eq!(place.ok(&["get", "db", "long"]), value.as_bytes());

    place.write("bad.toml", "[default]\n\nmin_blob_sise = 10\n");
    let said = place.fails(1, &["get", "db", "k", "--config", "bad.toml"]);
    assert!(said.starts_with("titan: invalid option: line 3"), "{said}");
    assert!(
        said.contains("min_blob_sise") && said.contains("bad.toml"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        place
            .fails(1, &["options", "--json", "--config", "none"])
            .contains("not found")
    );
}

#[test]
fn a_database_that_is_not_there_is_not_made() {
    let place = Place::new();
    for args in [
        &["get", "db", "k"][..],
        &["delete", "db", "k"],
        &["scan", "db"],
        &["dump", "db", "out"],
        &["stats", "db"],
        &["check", "db"],
        &["compact", "db"],
        &["bench", "db", "--verify"],
        &["bench", "db", "--existing", "--benchmarks", "readrandom"],
    ] {
        let said = place.fails(1, args);
        assert!(said.starts_with("titan: not found: "), "{args:?}: {said}");
        assert!(!place.path("db").exists(), "{args:?}");
    }
}

#[test]
fn help_version_and_usage() {
    let place = Place::new();
    assert!(place.text(&["--version"]).starts_with("titan "));
    for command in [
        "load", "dump", "get", "put", "delete", "scan", "stats", "check", "inspect", "compact",
        "bench", "options",
    ] {
        let help = place.text(&[command, "--help"]);
        assert!(help.contains("Example"), "{command}: {help}");
        assert!(
            help.contains(&format!("\n  titan {command}")),
            "{command}: {help}"
        );
    }
    let said = place.fails(2, &["scan", "db", "--limt", "3"]);
    assert!(
        said.starts_with("titan: usage: unexpected argument '--limt' found"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(place.fails(2, &["get"]).contains("<DB>"));
    assert!(place.fails(2, &["bench", "db"]).contains("--benchmarks"));
}

#[test]
fn stats_are_told() {
    let place = Place::new();
    place.write("tree/x", vec![7; 100_000]);
    place.ok(&["load", "db", "tree"]);
    let text = place.text(&["stats", "db"]);
    assert!(text.contains("Column family default"), "{text}");
    assert!(text.contains("blob files 1, 97.69 KiB"), "{text}");
    assert!(text.contains("(100.0 %)"), "{text}");
    let json = place.json(&["stats", "db", "--json"]);
    assert_eq!(json["families"][0]["estimated_keys"], 1, "{json}");
    assert!(json["disk"]["sst_bytes"].as_u64().unwrap() > 0, "{json}");
    assert!(json["counters"]["gets"].is_u64(), "{json}");
}

/// The one file of a database with this ending.
fn file_of(database: &Path, ending: &str) -> PathBuf {
    let mut found = tree(database).into_keys().filter(|name| {
        let name = name.to_string_lossy();
        name.ends_with(ending) || (ending == "MANIFEST" && name.starts_with(ending))
    });
    let file = found.next().unwrap();
    assert!(found.next().is_none(), "several {ending}");
    database.join(file)
}

#[test]
fn check_names_what_is_damaged() {
    let place = Place::new();
    place.write("tree/small", "s");
    place.write("tree/large", vec![7; 100_000]);
    place.ok(&["load", "db", "tree"]);
    assert!(place.text(&["check", "db"]).ends_with("no damage found\n"));
    let report = place.json(&["check", "db", "--json"]);
    assert_eq!(
        (&report["ok"], &report["pointers"]),
        (&true.into(), &1.into()),
        "{report}"
    );

    let blob = file_of(&place.path("db"), ".blob");
    let mut bytes = fs::read(&blob).unwrap();
    bytes[50_000] ^= 1;
    fs::write(&blob, bytes).unwrap();
    let output = place.run(&["check", "db"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        said.contains("corruption: ") && said.contains(blob.file_name().unwrap().to_str().unwrap()),
        "{said}"
    );
    let output = place.run(&["check", "db", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(report["ok"], false);
    let path = report["problems"][0]["file"].as_str().unwrap();
    assert!(path.ends_with(".blob"), "{report}");
}

#[test]
fn inspect_shows_every_kind_of_file() {
    let place = Place::new();
    place.write("tree/small", "s");
    place.write("tree/large", vec![7; 100_000]);
    place.ok(&["load", "db", "tree"]);
    place.ok(&["put", "db", "logged", "v"]);
    for ending in [".sst", ".blob", ".log", "MANIFEST"] {
        let file = file_of(&place.path("db"), ending);
        let file = file.to_str().unwrap();
        assert!(!place.text(&["inspect", file]).is_empty(), "{ending}");
        for line in place.text(&["inspect", file, "--json"]).lines() {
            let item: Value = serde_json::from_str(line).unwrap();
            assert!(
                item["kind"].is_string() && item["fields"].is_object(),
                "{ending}: {item}"
            );
        }
    }
    place.write("foreign", "no file of a database");
    assert!(
        place
            .fails(1, &["inspect", "foreign"])
            .starts_with("titan: ")
    );
}

const STEPS: &str = "fillseq,fillrandom,overwrite,readrandom,multireadrandom,seekrandom,readseq,\
                     deleterandom";

#[test]
fn bench_measures_every_step() {
    let place = Place::new();
    // Small enough that flushes and compactions happen.
    place.write(
        "c.toml",
        "[default]\nwrite_buffer_size = 1000000\nmin_blob_size = 2000\n",
    );
    let sizes = [
        "--num",
        "2000",
        "--value-size",
        "5000",
        "--threads",
        "2",
        "--config",
        "c.toml",
    ];
    let steps = [
        "--benchmarks",
        STEPS,
        "--seek-nexts",
        "3",
        "--json",
        "--histogram",
    ];
    let report = place.json(&[&["bench", "db"], &sizes[..], &steps[..]].concat());
    let names: Vec<&str> = report["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.join(","), STEPS);
    for step in report["steps"].as_array().unwrap() {
        let number = |field: &str| {
            step[field]
                .as_f64()
                .unwrap_or_else(|| panic!("{field}: {step}"))
        };
        let name = step["name"].as_str().unwrap();
        // A thread of readseq ends where the keys do.
        assert!(number("ops") == 4000.0 || name == "readseq", "{step}");
        assert!(number("ops_per_sec") > 0.0, "{step}");
        assert!(number("p50_us") <= number("p99_us"), "{step}");
        assert!(number("p99_us") <= number("p999_us"), "{step}");
        assert!(number("space_amp") <= number("space_amp_max"), "{step}");
        let writes = [
            "fillseq",
            "fillrandom",
            "overwrite",
            "deleterandom",
            "readwhilewriting",
        ];
        if writes.contains(&name) {
            assert!(number("write_amp") >= 1.0, "{step}");
        } else {
            assert!(step["write_amp"].is_null(), "{step}");
        }
        assert!(number("peak_memory_bytes") > 1e6, "{step}");
        assert!(number("space_amp") > 0.5, "{step}");
        assert!(step["disk"]["blob_bytes"].as_u64().unwrap() > 0, "{step}");
    }
    let step = |name: &str| &report["steps"][names.iter().position(|n| *n == name).unwrap()];
    assert_eq!(step("fillseq")["live_keys"], 2000);
    // Of n keys, drawing 2 n leaves out e^-2 of them, drawing 4 n e^-4.
    let random = step("fillrandom")["live_keys"].as_u64().unwrap();
    assert!((1630..1830).contains(&random), "{random}");
    let overwritten = step("overwrite")["live_keys"].as_u64().unwrap();
    assert!((1910..2000).contains(&overwritten), "{overwritten}");
    let found = step("readrandom")["found"].as_u64().unwrap();
    assert!((3800..4000).contains(&found), "{found}");
    assert_eq!(step("readseq")["ops"].as_u64().unwrap(), 2 * overwritten);
    // 3 entries of 16 + 5000 bytes a seek, but at the end.
    let seeks = step("seekrandom");
    let bytes = seeks["mb_per_sec"].as_f64().unwrap() * seeks["seconds"].as_f64().unwrap();
    assert!(
        (bytes * 1048576.0 / (4000.0 * 3.0 * 5016.0) - 1.0).abs() < 0.02,
        "{seeks}"
    );

    // What it wrote is recognised, and anything else is not.
    let verify = [&["bench", "db", "--verify"], &sizes[..4]].concat();
    let text = place.text(&verify);
    assert!(text.ends_with("entries, all as written\n"), "{text}");
    let scanned = [
        &[
            "bench",
            "db",
            "--benchmarks",
            "overwrite",
            "--existing",
            "--json",
        ],
        &sizes[..4],
    ];
    let again = place.json(&scanned.concat());
    assert_eq!(again["steps"][0]["live_known_by"], "scan", "{again}");
    place.ok(&["put", "db", "0x00000000000000073030303030303030", "wrong"]);
    let said = place.fails(1, &verify);
    assert!(
        said.starts_with("titan: corruption: entry 0x0000000000000007"),
        "{said}"
    );
}

#[test]
fn bench_destroys_only_its_own() {
    let place = Place::new();
    let fill = ["bench", "db", "--benchmarks", "fillseq", "--num", "10"];
    place.ok(&["put", "db", "precious", "value"]);
    let said = place.fails(1, &fill);
    assert!(said.contains("would be destroyed"), "{said}");
    assert_eq!(place.ok(&["get", "db", "precious"]), b"value");
    place.ok(&["delete", "db", "precious"]);
    place.ok(&fill);
    place.ok(&fill);
}

#[test]
fn bench_tells_people_too_and_obeys_the_clock() {
    let place = Place::new();
    let started = std::time::Instant::now();
    let text = place.text(&[
        "bench",
        "db",
        "--benchmarks",
        "fillseq,readwhilewriting",
        "--num",
        "1000",
        "--duration",
        "1",
        "--batch-size",
        "10",
        "--wait-compactions",
        "--histogram",
        "--seed",
        "5",
    ]);
    assert!(started.elapsed().as_secs_f64() >= 1.0);
    assert!(text.contains("fillseq          : 1,000 ops"), "{text}");
    assert!(
        text.contains("write_amp") && text.contains("live: 1,000 keys"),
        "{text}"
    );
    let took = text
        .lines()
        .find(|line| line.contains(" writes beside"))
        .expect(&text);
    assert!(
        took.contains(" found") && !took.contains(" 0 writes"),
        "{text}"
    );
    assert!(text.contains("100.0000 %"), "{text}");
}

#[test]
fn a_killed_bench_leaves_only_what_it_wrote() {
    let place = Place::new();
    place.write(
        "c.toml",
        "[default]\nwrite_buffer_size = 1000000\nmin_blob_size = 2000\n",
    );
    let sizes = [
        "--num",
        "3000",
        "--value-size",
        "3000",
        "--config",
        "c.toml",
    ];
    let steps = [
        "bench",
        "db",
        "--benchmarks",
        "fillrandom",
        "--duration",
        "300",
    ];
    let mut bench = place
        .command(&[&steps[..], &sizes[..]].concat())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // In full swing: something has been flushed.
    let flushed = || {
        let files = fs::read_dir(place.path("db"))
            .into_iter()
            .flatten()
            .flatten();
        files
            .filter(|file| file.path().extension() == Some(OsStr::new("sst")))
            .count()
            > 1
    };
    while !flushed() {
        assert!(
            bench.try_wait().unwrap().is_none(),
            "the bench ended by itself"
        );
        std::thread::yield_now();
    }
    bench.kill().unwrap();
    bench.wait().unwrap();
    let report = place.json(&[&["bench", "db", "--verify", "--json"], &sizes[..]].concat());
    assert!(report["verified"].as_u64().unwrap() > 300, "{report}");
}

#[test]
fn repair_saves_what_is_left_and_names_what_is_gone() {
    let place = Place::new();
    for i in 0..20_u8 {
        place.write(format!("tree/file{i:02}"), vec![i; 20_000]);
    }
    place.ok(&["load", "db", "tree"]);
    let said = place.text(&["repair", "db"]);
    assert!(said.ends_with("nothing was lost\n"), "{said}");
    let keys = place.text(&["scan", "db", "--keys-only"]);
    assert_eq!(place.text(&["scan", "db.repaired", "--keys-only"]), keys);
    assert!(
        place
            .text(&["check", "db.repaired"])
            .ends_with("no damage found\n")
    );
    // Not into what is there already, and not both ways at once.
    assert!(place.fails(1, &["repair", "db"]).contains("not empty"));
    place.fails(2, &["repair", "db", "--in-place", "--into", "other"]);

    let blob = file_of(&place.path("db"), ".blob");
    let mut bytes = fs::read(&blob).unwrap();
    let at = bytes.windows(16).position(|w| w == [7; 16]).unwrap();
    bytes[at] ^= 1;
    fs::write(&blob, bytes).unwrap();
    let before = tree(&place.path("db"));
    let output = place.run(&["repair", "db", "--into", "rescued", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(report["complete"], false);
    let lost = report["lost"].as_array().unwrap();
    assert_eq!(lost.len(), 1, "{report}");
    assert_eq!(lost[0]["from"], lost[0]["to"]);
    assert!(
        lost[0]["from"].as_str().unwrap().ends_with("file07"),
        "{report}"
    );
    assert_eq!(lost[0]["entries"], 1);
    assert_eq!(
        tree(&place.path("db")),
        before,
        "the damaged one is as it was"
    );
    assert!(
        place
            .text(&["check", "rescued"])
            .ends_with("no damage found\n")
    );
    let said = place.run(&["repair", "db", "--in-place"]);
    assert_eq!(said.status.code(), Some(3), "{said:?}");
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("lost: ") && said.contains("file07"), "{said}");
    assert!(said.ends_with("something was lost, in 1 place\n"), "{said}");
    assert!(place.text(&["check", "db"]).ends_with("no damage found\n"));
    assert!(place.path("db/lost").is_dir());
}

#[test]
fn repair_of_the_working_directory_puts_the_result_beside_it() {
    let place = Place::new();
    place.write("tree/file", "x");
    place.ok(&["load", "db", "tree"]);
    let before = tree(&place.path("db"));
    let mut command = place.command(&["repair", "."]);
    let output = command.current_dir(place.path("db")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(tree(&place.path("db")), before);
    assert_eq!(
        place.text(&["scan", "db.repaired"]),
        place.text(&["scan", "db"])
    );
}
