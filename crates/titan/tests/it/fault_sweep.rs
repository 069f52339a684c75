//! Every operation of a workload fails once, one run each: whatever a call returns, what was
//! acknowledged is there, after `resume` and after opening again.

use titan::{Db, ErrorKind};
use titan_testkit::ops::{Op, Ops};
use titan_testkit::sim::{Fault, OpKind, SimVfs};

use crate::sim::{DIR, Store, contents, options, power_cut};

fn workload() -> Ops {
    let mut text = "create-cf cf1\n".to_owned();
    for round in 0..3 {
        for i in 0..8 {
            let sync = if i == 3 { "sync " } else { "" };
            text += &format!(
                "{sync}batch [put default k{i} {}*300; put cf1 k{i} {i}*{}; delete cf1 d{round}]\n",
                i + 10 * round,
                40 + 100 * round,
            );
        }
        text += "flush default\n";
        text += "sync delete-range cf1 k2 k4\n";
        text += "compact cf1\n";
        if round == 1 {
            text += "put default before-reopen 1*500\nreopen\ncreate-cf cf2\nput cf2 k 1*200\n";
        }
    }
    text += "compact default\ndrop-cf cf2\nput default last 7*150\nreopen\n";
    Ops::parse(&text).unwrap()
}

const KINDS: [OpKind; 10] = [
    OpKind::Create,
    OpKind::Append,
    OpKind::Sync,
    OpKind::Rename,
    OpKind::Remove,
    OpKind::SyncDir,
    OpKind::Open,
    OpKind::Read,
    OpKind::ReadDir,
    OpKind::Stat,
];

/// Opens the database again after a call failed. The write that failed may be there now.
fn reopen(store: &mut Store, doubt: Option<&Op>, what: &str) {
    let _ = store.db.close();
    let opened = Db::open(DIR, &store.options);
    // The fault may not have struck before.
    store.db = opened
        .or_else(|_| Db::open(DIR, &store.options))
        .unwrap_or_else(|e| panic!("{what}: opening again: {e}"));
    let found = read(store, what);
    if found != *store.history.last()
        && let Some(op) = doubt
    {
        store.history.push(op);
    }
}

/// What is there; reading may meet the fault, but only once.
fn read(store: &Store, what: &str) -> titan_testkit::model::Model {
    contents(&store.db)
        .or_else(|_| contents(&store.db))
        .unwrap_or_else(|e| panic!("{what}: reading: {e}"))
}

/// Runs the workload with operation `index` of a kind failing. Returns whether there is one.
fn run(ops: &Ops, kind: OpKind, index: u64, fault: Fault, heal: Heal) -> bool {
    let what = format!("{kind:?} {index}, {heal:?}");
    let vfs = SimVfs::new();
    let handle = vfs.inject(fault.skip(index));
    let mut store = Store::open(&vfs, 2)
        .or_else(|_| Store::open(&vfs, 2))
        .unwrap_or_else(|e| panic!("{what}: opening twice: {e}"));
    for op in &ops.0 {
        // One attempt and, where it failed, one more.
        for _ in 0..2 {
            let Err(error) = store.apply(op) else {
                break;
            };
            let kind = error.kind();
            assert!(
                matches!(
                    kind,
                    ErrorKind::Io | ErrorKind::WritesStopped | ErrorKind::AlreadyExists
                ),
                "{what}, {op}: {error}"
            );
            // Creating or dropping may have happened although it failed.
            let doubt = (kind == ErrorKind::Io).then_some(op);
            match (heal, op) {
                (Heal::Resume, Op::Reopen) | (Heal::Reopen, _) => {
                    reopen(&mut store, doubt, &what);
                }
                (Heal::Resume, _) => {
                    let resumed = store.db.resume().or_else(|_| store.db.resume());
                    resumed.unwrap_or_else(|e| panic!("{what}, {op}: resuming: {e}"));
                }
            }
            let found = read(&store, &what);
            assert!(found == *store.history.last(), "{what}, {op}: {error}");
            if matches!(op, Op::Reopen) || !store.history.is_empty() && applied(&store, op) {
                break;
            }
        }
    }
    if store.db.background_error().is_some() {
        store.db.resume().or_else(|_| store.db.resume()).unwrap();
    }
    assert!(read(&store, &what) == *store.history.last(), "{what}");
    if store.db.sync_wal().is_err() {
        store.db.resume().unwrap();
    }
    let cut = power_cut(&vfs);
    let db = Db::open(DIR, &options(&cut, 2)).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(
        contents(&db).unwrap() == *store.history.last(),
        "{what}, power cut"
    );
    handle.hits() > 0
}

/// Whether a family operation has had its effect.
fn applied(store: &Store, op: &Op) -> bool {
    match op {
        Op::CreateCf { family } => store.db.column_family(family).is_some(),
        Op::DropCf { family } => store.db.column_family(family).is_none(),
        _ => false,
    }
}

#[derive(Clone, Copy, Debug)]
enum Heal {
    Resume,
    Reopen,
}

fn sweep(heal: Heal, strike: impl Fn(OpKind) -> Fault, kinds: &[OpKind]) {
    let ops = workload();
    let mut struck = 0;
    for &kind in kinds {
        let stride = match kind {
            OpKind::Read | OpKind::Open | OpKind::Stat => 5,
            OpKind::Append => 2,
            _ => 1,
        };
        let mut index = 0;
        while run(&ops, kind, index, strike(kind), heal) {
            struck += 1;
            index += stride;
        }
    }
    assert!(struck >= 10 * kinds.len(), "only {struck} faults");
}

#[test]
fn any_operation_may_fail_and_resume_heals_it() {
    sweep(Heal::Resume, |kind| Fault::on([kind]), &KINDS);
}

#[test]
fn any_operation_may_fail_and_opening_heals_it() {
    sweep(Heal::Reopen, |kind| Fault::on([kind]), &KINDS);
}

#[test]
fn an_operation_may_fail_after_it_took_effect() {
    let kinds = [
        OpKind::Append,
        OpKind::Sync,
        OpKind::SyncDir,
        OpKind::Create,
    ];
    let strike = |kind| Fault::on([kind]).after_the_fact();
    sweep(Heal::Resume, strike, &kinds);
    sweep(Heal::Reopen, strike, &kinds);
}

#[test]
fn a_failed_sync_may_lose_what_it_was_to_keep() {
    let strike = |kind| Fault::on([kind]).losing_pages();
    sweep(Heal::Resume, strike, &[OpKind::Sync]);
}
