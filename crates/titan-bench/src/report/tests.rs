//! Whole reports, written and read again.

use std::path::PathBuf;

use super::*;

/// A directory that is removed with the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let name = format!("titan-bench-report-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn a_report_is_written_and_read_again() {
    let (dir, report) = (Dir::new("whole"), synthetic::report());
    write(&report, &dir.0).unwrap();
    let again = read(&dir.0).unwrap();
    let said = |report: &Report| markdown::render(&content::document(report).unwrap(), PLOTS);
    assert_eq!(said(&again), said(&report));
    assert_eq!(said(&read(&dir.0.join(JSON)).unwrap()), said(&report));

    let (html, markdown) = (dir.text("report.html"), dir.text("report.md"));
    let places = |text: &str| {
        let headings = ["Where Titan loses", "Where Titan wins", "Method"];
        // The last occurrence: the table of contents names them too.
        headings.map(|heading| text.rfind(heading).unwrap())
    };
    for text in [&html, &markdown] {
        assert!(places(text).is_sorted());
        for part in [
            "512 MiB",
            "in round 2: the disk is full",
            "cut short",
            "recovery",
        ] {
            assert!(text.contains(part), "{part} is missing");
        }
    }
    assert!(!html.contains("<script") && !html.contains("http://localhost"));
    for plot in fs::read_dir(dir.0.join(PLOTS)).unwrap() {
        let name = plot.unwrap().file_name().into_string().unwrap();
        assert!(name.ends_with(".svg"), "{name}");
        assert!(markdown.contains(&format!("plots/{name}")));
    }
    assert!(
        dir.text("plots/fill-and-read--get--throughput.svg")
            .starts_with("<svg")
    );
}

#[test]
fn links_lead_somewhere() {
    let dir = Dir::new("links");
    write(&synthetic::report(), &dir.0).unwrap();
    let html = dir.text("report.html");
    let links: Vec<&str> = html.split("href=\"#").skip(1).collect();
    assert!(links.len() > 10);
    for link in links {
        let anchor = link.split('"').next().unwrap();
        assert_eq!(
            html.matches(&format!("id=\"{anchor}\"")).count(),
            1,
            "{anchor}"
        );
    }
}

#[test]
fn the_least_reports_can_be_written() {
    let dir = Dir::new("least");
    let mut report = synthetic::report();
    report.ceilings.clear();
    synthetic::keep_engines(&mut report, &["lmdb"]);
    write(&report, &dir.0).unwrap();
    assert!(
        dir.text("report.md")
            .contains("Titan is not among the engines")
    );

    let mut report = synthetic::report();
    synthetic::keep_engines(&mut report, &["titan"]);
    write(&report, &dir.0).unwrap();
    assert!(dir.text("report.md").contains("no other engine"));

    let mut report = synthetic::report();
    report.rounds = 1;
    report.runs.retain(|run| run.round == 1);
    write(&report, &dir.0).unwrap();
    assert!(
        dir.text("report.md")
            .contains("One round says nothing about the spread")
    );

    report.runs.clear();
    report.engines.clear();
    report.workloads.clear();
    write(&report, &dir.0).unwrap();
}

#[test]
fn a_titan_that_failed_everywhere_lost() {
    let dir = Dir::new("failed");
    let mut report = synthetic::report();
    for run in report.runs.iter_mut().filter(|run| run.engine == "titan") {
        run.outcome = crate::results::Outcome::Failed("it crashed".to_owned());
    }
    write(&report, &dir.0).unwrap();
    let markdown = dir.text("report.md");
    assert!(markdown.contains("Titan failed at mixed: mixed in round 3: it crashed"));
    assert!(markdown.contains("Nothing can be compared"));
}

#[test]
fn what_is_no_report_is_told() {
    let dir = Dir::new("damaged");
    let file = dir.0.join(JSON);
    let error = |text: &str| {
        fs::write(&file, text).unwrap();
        format!("{:#}", read(&file).unwrap_err())
    };
    assert!(error("what?").contains("no report"));
    assert!(error("{}").contains("no report"));
    assert!(error("{\"schema\": 999}").contains("schema 999"));
    assert!(error(&format!("{{\"schema\": {SCHEMA}}}")).contains("damaged"));
    fs::remove_file(&file).unwrap();
    assert!(format!("{:#}", read(&dir.0).unwrap_err()).contains("reading"));
}
