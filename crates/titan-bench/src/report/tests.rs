//! Whole reports, written and read again, and the pages of the recorded results.

use super::*;

#[test]
fn a_report_is_written_and_read_again() {
    let (dir, report) = (tempfile::tempdir().unwrap(), synthetic::report());
    write(&report, dir.path()).unwrap();
    assert_eq!(tables(&read(dir.path()).unwrap()), tables(&report));
    assert_eq!(
        tables(&read(&dir.path().join(JSON)).unwrap()),
        tables(&report)
    );
    let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text(JSON)).unwrap();
    assert_eq!(json["engines"][1], "rocksdb");
    assert_eq!(json["workloads"][0]["name"], "mixed: fill");
    assert_eq!(json["workloads"][0]["p99_us"][2], 20.0);

    let (html, markdown) = (text("report.html"), text("report.md"));
    let headings = [
        "Where Titan loses",
        "Where Titan wins",
        "Figures",
        "Plots",
        "Engines",
    ];
    for text in [&html, &markdown] {
        let places = headings.map(|heading| text.rfind(heading).unwrap());
        assert!(places.is_sorted());
        for part in [
            "512 MiB",
            "in round 2: the disk is full",
            "8,320 (8,160–8,480) †",
            "at most 0.10",
        ] {
            assert!(text.contains(part), "{part} is missing");
        }
    }
    assert!(!html.contains("<script") && html.contains("polyline"));
    for plot in fs::read_dir(dir.path().join("plots")).unwrap() {
        let name = plot.unwrap().file_name().into_string().unwrap();
        assert!(markdown.contains(&format!("plots/{name}")), "{name}");
    }
    assert!(text("plots/mixed-get-operations-s.svg").starts_with("<svg"));
    for link in html.split("href=\"#").skip(1) {
        let anchor = link.split('"').next().unwrap();
        assert_eq!(
            html.matches(&format!("id=\"{anchor}\"")).count(),
            1,
            "{anchor}"
        );
    }
}

#[test]
fn few_variants_have_ratios_and_one_has_one_table() {
    let mut report = synthetic::report();
    synthetic::keep_engines(&mut report, &["titan", "rocksdb"]);
    let two = tables(&report);
    assert!(two.contains("| titan / rocksdb |"), "{two}");
    assert!(two.contains("| 2.40 |"), "{two}");
    synthetic::keep_engines(&mut report, &["titan"]);
    let one = tables(&report);
    assert!(!one.contains("Where Titan"));
    let columns = "|  | operations/s | p99 latency | write amplification | written: sst |";
    assert!(one.contains(columns), "{one}");
    report.workloads.clear();
    report.engines.clear();
    assert!(!tables(&report).contains("Plots"));
}

#[test]
fn files_that_are_no_reports_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(JSON);
    let error = |text: &str| {
        fs::write(&file, text).unwrap();
        format!("{:#}", read(&file).unwrap_err())
    };
    assert!(error("what?").contains("no report"));
    assert!(error("{}").contains("no report"));
    assert!(error("{\"schema\": 999}").contains("schema 999"));
    assert!(error(&format!("{{\"schema\": {SCHEMA}}}")).contains("damaged"));
    fs::remove_file(&file).unwrap();
    assert!(format!("{:#}", read(dir.path()).unwrap_err()).contains("reading"));
}

/// `titan-bench report FILE...` writes them.
#[test]
fn pages_of_recorded_results_are_those_of_their_data() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    // Those of the campaigns are made by another program.
    let files = walkdir::WalkDir::new(&dir).into_iter();
    let files = files.filter_entry(|entry| entry.file_name() != "testing");
    let files: Vec<PathBuf> = files.map(|file| file.unwrap().into_path()).collect();
    let has_ending = |path: &Path, wanted: &str| path.extension().is_some_and(|it| it == wanted);
    let mut made = Vec::new();
    for file in files.iter().filter(|file| has_ending(file, "toml")) {
        made.extend(pages(file).unwrap());
        for (picture, _) in read(file).unwrap().pictures {
            let path = file.with_file_name(picture);
            made.push((path.clone(), fs::read_to_string(path).unwrap()));
        }
    }
    assert!(!made.is_empty());
    for (path, text) in &made {
        let there = fs::read_to_string(path).unwrap_or_default();
        assert!(
            there == *text,
            "{} is not made of the data beside it",
            path.display()
        );
    }
    // Nothing else is there.
    for path in files {
        assert!(
            !has_ending(&path, "md") && !has_ending(&path, "svg")
                || made.iter().any(|(made, _)| *made == path),
            "{} is made of no data",
            path.display()
        );
    }
}
