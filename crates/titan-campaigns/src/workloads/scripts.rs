//! Scripts: cases that random operations rarely reach.

use std::fmt::Write as _;

use titan_testkit::ops::{Op, Ops};

use super::Workload;
use crate::settings::Settings;

/// A script under construction: text, so that it reads like the output of a failure.
#[derive(Default)]
struct Script(String);

impl Script {
    fn line(&mut self, line: impl AsRef<str>) {
        self.0 += line.as_ref();
        self.0 += "\n";
    }

    fn lines<S: AsRef<str>>(&mut self, lines: impl IntoIterator<Item = S>) {
        lines.into_iter().for_each(|line| self.line(line));
    }

    /// The operations. An unreadable line ends the script: a unit test ensures that there is none.
    fn ops(&self) -> Vec<Op> {
        Ops::parse(&self.0).map(|ops| ops.0).unwrap_or_default()
    }
}

/// A script's name, settings, and function that writes it.
type Shape = (&'static str, Settings, fn(&mut Script));

/// The scripts that are crashed, under settings that suit them.
pub fn scripts() -> Vec<Workload> {
    let all: [Shape; 12] = [
        ("a bit of everything", Settings::jobs(2), everything),
        (
            "many families",
            Settings {
                wal_limit: 48 << 10,
                ..Settings::jobs(3)
            },
            families,
        ),
        (
            "values over blocks of the log",
            Settings::jobs(2),
            big_values,
        ),
        (
            "ranges deleted",
            Settings {
                table: 1 << 10,
                ..Settings::jobs(2)
            },
            ranges,
        ),
        (
            "values move to blob files late",
            Settings {
                toggles: true,
                ..Settings::jobs(2)
            },
            separation,
        ),
        (
            "garbage is collected",
            Settings {
                collects: true,
                ..Settings::jobs(2)
            },
            everything,
        ),
        (
            "garbage of late blob files is collected",
            Settings {
                collects: true,
                toggles: true,
                min_blob: Some(1),
                ..Settings::jobs(1)
            },
            separation,
        ),
        (
            "garbage is given back as holes",
            Settings {
                collects: true,
                punches: true,
                settled: true,
                ..Settings::jobs(2)
            },
            holes,
        ),
        ("families come and go", Settings::jobs(4), drops),
        (
            "opened again and again",
            Settings {
                min_blob: None,
                ..Settings::jobs(1)
            },
            reopens,
        ),
        (
            "small writes, some synced",
            Settings {
                levels: 2,
                ..Settings::jobs(2)
            },
            small,
        ),
        (
            "past the log",
            Settings {
                unlogged: true,
                ..Settings::jobs(2)
            },
            unlogged,
        ),
    ];
    all.map(workload).into()
}

/// Few operations of every kind, with warm and cold caches, with one job and more.
pub fn brief() -> Vec<Workload> {
    let cold = Settings {
        cold: true,
        ..Settings::jobs(1)
    };
    let collecting = Settings {
        collects: true,
        ..Settings::jobs(2)
    };
    let all: [Shape; 3] = [
        ("script", Settings::jobs(2), few),
        ("script, cold", cold, few),
        ("script, collecting", collecting, few),
    ];
    all.map(workload).into()
}

fn workload((name, settings, write): Shape) -> Workload {
    let mut script = Script::default();
    write(&mut script);
    Workload {
        name: name.to_owned(),
        settings,
        ops: script.ops(),
    }
}

/// Values of several blocks; first every third is deleted, then all except every third, some of
/// them under a snapshot.
fn holes(s: &mut Script) {
    let put = |i: u64, round: u64| format!("put default h{i:03} {}*9000", 100 * round + i);
    s.lines((0..18).map(|i| put(i, 0)));
    s.line("flush default");
    s.lines((0..18).step_by(3).map(|i| put(i, 1)));
    s.lines(["flush default", "compact default", "snapshot 1"]);
    s.lines((0..18).step_by(3).map(|i| put(i + 1, 2)));
    s.lines([
        "flush default",
        "compact default",
        "sync delete default h000",
    ]);
    s.lines([
        "get default h001 @1",
        "drop-snapshot 1",
        "compact default",
        "checkpoint",
        "reopen",
    ]);
    s.lines((0..18).step_by(3).map(|i| put(i + 2, 3)));
    s.lines(["flush default", "compact default", "get default h005"]);
}

/// Blob files whose records are all deleted, values that a snapshot pins, a family that is dropped
/// with its files and created again, batches over families.
fn everything(s: &mut Script) {
    s.line("create-cf cf1");
    s.lines((0..30).map(|i| {
        let size = if i % 3 == 0 { 20 } else { 700 };
        format!(
            "batch [put default d{i:03} {i}*{size}; put cf1 d{i:03} {i}*{size}; put cf1 s{i:03} {i}*200]"
        )
    }));
    s.lines([
        "sync put default synced 1*50",
        "flush default",
        "snapshot 1",
    ]);
    s.lines((0..30).map(|i| {
        let other = i + 100;
        format!(
            "batch [put cf1 d{i:03} {other}*600; delete default d{i:03}; put default e{i:03} {i}*300]"
        )
    }));
    s.lines([
        "flush cf1",
        "compact cf1",
        "sync delete-range default e000 e015",
    ]);
    s.lines([
        "get default d001 @1",
        "drop-snapshot 1",
        "compact default",
        "create-cf cf2",
    ]);
    s.lines((0..20).map(|i| format!("batch [put cf2 f{i:03} {i}*400; single-delete cf1 s{i:03}]")));
    s.lines([
        "flush cf2",
        "drop-cf cf2",
        "create-cf cf2",
        "sync put cf2 again 3*200",
    ]);
    s.lines((0..40).map(|i| format!("put default g{:03} {i}*900", i % 5)));
    s.line("reopen");
    s.lines((0..25).map(|i| {
        format!(
            "batch [put default g{:03} {i}*150; put cf2 g{i:03} {i}*150]",
            i % 5
        )
    }));
    s.lines(["flush default", "put cf2 last 5*2000"]);
}

/// Batches over eight families that flush at different times, so that some family always needs the
/// log.
fn families(s: &mut Script) {
    s.lines((1..8).map(|f| format!("create-cf f{f}")));
    for round in 0..12 {
        let mut batch = format!("batch [put default r{round:02} {round}*300");
        for f in 1..8 {
            let _ = write!(batch, "; put f{f} r{round:02} {round}*{}", 60 * f);
        }
        s.line(batch + "]");
        s.lines((1..8).map(|f| format!("put f{f} own{} {round}*{}", round % 3, 900 - 100 * f)));
        s.line(format!("flush f{}", 1 + round % 7));
        if round % 4 == 3 {
            s.line(format!("sync put f{} synced {round}*30", 1 + round % 5));
            s.line("compact f1");
        }
        if round == 7 {
            s.line("reopen");
        }
    }
}

/// Records longer than a block of the log, synced and not, between short ones.
fn big_values(s: &mut Script) {
    s.line("create-cf cf1");
    for i in 0..14 {
        let (size, sync) = (
            9_000 + 7_919 * (i % 5),
            if i % 4 == 1 { "sync " } else { "" },
        );
        s.line(format!("put default small{i:02} {i}*20"));
        s.line(format!(
            "{sync}batch [put default big{} {i}*{size}; put cf1 big{i:02} {i}*40]",
            i % 4
        ));
        if i % 5 == 4 {
            s.lines(["flush cf1", "put cf1 between 7*33000"]);
        }
        if i == 9 {
            s.line("reopen");
        }
    }
    s.lines([
        "compact default",
        "sync put cf1 last 1*32768",
        "put default end 1*32740",
    ]);
}

/// Range deletions over keys in memory and in tables, under snapshots, across families.
fn ranges(s: &mut Script) {
    s.line("create-cf cf1");
    for round in 0..5 {
        s.lines((0..16).map(|i| {
            let size = 20 + 60 * (i % 5);
            format!("batch [put default k{i:02} {round}*{size}; put cf1 k{i:02} {i}*{size}]")
        }));
        let from = 3 * round;
        s.line(format!("snapshot {}", round + 1));
        s.line(format!(
            "batch [delete-range default k{from:02} k{:02}; put default k{:02} 9*200; delete-range cf1 a k{from:02}]",
            from + 4,
            from + 2
        ));
        s.line(if round % 2 == 0 {
            "flush default"
        } else {
            "flush cf1"
        });
        s.line(format!(
            "sync delete-range cf1 k{:02} k{:02}",
            15 - round,
            16
        ));
        s.line(format!("scan default - - @{}", round + 1));
        if round > 1 {
            // Opening ends all snapshots.
            if round < 4 {
                s.line(format!("drop-snapshot {}", round - 1));
            }
            s.lines(["compact default", "compact cf1"]);
        }
        if round == 3 {
            s.line("reopen");
        }
    }
    s.lines([
        "delete-range default a z",
        "sync put cf1 k00 1*1",
        "compact default",
    ]);
}

/// Values written inline that compactions move to blob files, and the other way round.
fn separation(s: &mut Script) {
    for round in 0..5 {
        s.lines((0..20).map(|i| {
            let (key, size) = ((i * 7 + round) % 25, 80 + 90 * (i % 4));
            format!("put default k{key:02} {round}*{size}")
        }));
        s.lines(["flush default", "sync put default synced 1*120", "reopen"]);
        s.lines((0..6).map(|i| format!("put default k{:02} {i}*150", i * 4)));
        s.line("compact default");
    }
}

/// Families dropped with writes in the log, in memtables and in tables, and created again.
fn drops(s: &mut Script) {
    for round in 0..7 {
        s.line("create-cf a");
        s.line("create-cf b");
        s.lines((0..6).map(|i| {
            format!("batch [put a k{i} {round}*250; put b k{i} {round}*90; put default r{round}k{i} 1*130]")
        }));
        match round % 3 {
            0 => s.line("flush a"),
            1 => s.lines(["flush b", "compact default"]),
            _ => s.line("sync put a synced 3*30"),
        }
        s.lines(["drop-cf a", "put b afterwards 1*300"]);
        if round % 2 == 0 {
            s.line("reopen");
        }
        s.line("drop-cf b");
    }
    s.lines(["create-cf a", "put a last 1*200", "put default last 2*200"]);
}

/// Few operations between two openings, so that most of the time is recovery.
fn reopens(s: &mut Script) {
    s.line("create-cf cf1");
    for round in 0..14 {
        let sync = if round % 3 == 0 { "sync " } else { "" };
        s.line(format!(
            "{sync}batch [put default k{} {round}*150; put cf1 r{round:02} {round}*60]",
            round % 4
        ));
        if round % 4 == 1 {
            s.line("delete-range cf1 r00 r02");
        }
        if round % 5 == 2 {
            s.line("flush cf1");
        }
        s.line("reopen");
    }
}

/// Many small writes, every seventh synced, over logs that change with every flush.
fn small(s: &mut Script) {
    s.line("create-cf cf1");
    for i in 0..160 {
        let (family, sync) = (
            if i % 3 == 0 { "cf1" } else { "default" },
            if i % 7 == 6 { "sync " } else { "" },
        );
        s.line(format!(
            "{sync}put {family} k{:02} {i}*{}",
            i % 30,
            10 + i % 50
        ));
        match i % 40 {
            19 => s.line("flush default"),
            29 => s.line("flush cf1"),
            39 => s.line("compact default"),
            _ => {}
        }
    }
}

/// Writes that only flushes make durable.
fn unlogged(s: &mut Script) {
    s.lines(["create-cf cf1", "create-cf cf2"]);
    for round in 0..8 {
        s.lines((0..9).map(|i| {
            let size = 30 + 100 * (i % 3);
            format!("batch [put default k{i} {round}*{size}; put cf1 k{i} {i}*{size}; delete cf2 k{round}]")
        }));
        s.line(["flush default", "flush cf1", "compact cf2"][round % 3]);
        s.line(format!("put cf2 k{round} 1*400"));
        match round {
            3 => s.line("reopen"),
            5 => s.lines(["drop-cf cf2", "create-cf cf2"]),
            _ => {}
        }
    }
}

/// Everything, in three short rounds.
fn few(s: &mut Script) {
    s.line("create-cf cf1");
    for round in 0..3 {
        s.lines((0..8).map(|i| {
            let (sync, value, size) = (
                if i == 3 { "sync " } else { "" },
                i + 10 * round,
                40 + 100 * round,
            );
            format!("{sync}batch [put default k{i} {value}*300; put cf1 k{i} {i}*{size}; delete cf1 d{round}]")
        }));
        s.lines([
            "flush default",
            "get default k3",
            "sync delete-range cf1 k2 k4",
            "compact cf1",
            "scan cf1 - -",
            "get cf1 k7",
        ]);
        if round == 1 {
            s.lines(["put default before-reopen 1*500", "reopen"]);
            s.lines(["create-cf cf2", "put cf2 k 1*200"]);
        }
    }
    s.lines(["compact default", "scan default - - reverse", "drop-cf cf2"]);
    s.lines(["put default last 7*150", "reopen", "get default last"]);
}
