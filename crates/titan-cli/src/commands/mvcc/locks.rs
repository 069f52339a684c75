//! `titan mvcc locks`: lists the locks of transactions that have not ended.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use titan::Result;
use titan_mvcc::{LockInfo, LockKind, Timestamp};

use crate::global::Global;
use crate::keys;
use crate::output::Out;
use crate::store::{read, translated};

/// List the locks of transactions that have not ended, in the order of their keys
///
/// A line is the key, the kind of the lock, the start timestamp of its transaction, the primary
/// key, the first timestamp at which the transaction may commit, and its time to live: others may
/// roll it back when its owner has sent no heartbeat for so long. With --json a line is an object,
/// with keys as titan mvcc scan prints them. Readers and writers end the locks of dead owners when
/// they meet them, and so do moves of the safe point.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the store.
    db: PathBuf,
    /// Print keys in hexadecimal.
    #[arg(long)]
    hex: bool,
}

const EXAMPLES: &str = "Examples:
  titan mvcc locks history.db
  titan mvcc locks history.db --json | jq .start";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let store = read(&args.db, global)?;
    let locks = store
        .percolator()
        .scan_locks(Timestamp::MAX, b"", usize::MAX);
    store.close().map_err(translated)?;
    let mut out = Out::new();
    for lock in &locks {
        if global.json {
            out.json_line(&object(lock, args.hex))?;
        } else {
            out.bytes(&line(lock, args.hex))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn line(lock: &LockInfo, hex: bool) -> Vec<u8> {
    let push = match hex {
        true => keys::push_hex,
        false => keys::push_escaped,
    };
    let mut line = Vec::new();
    push(&mut line, &lock.key);
    let said = format!(" : {}, start {}, primary ", name(lock.kind), lock.start);
    line.extend_from_slice(said.as_bytes());
    push(&mut line, &lock.primary);
    let ttl = humantime::format_duration(lock.ttl);
    let said = format!(", commits from {} on, lives {ttl}\n", lock.min_commit);
    line.extend_from_slice(said.as_bytes());
    line
}

fn object(lock: &LockInfo, hex: bool) -> Map<String, Value> {
    let mut object = Map::new();
    keys::insert_json(&mut object, "key", &lock.key, hex);
    object.insert("kind".into(), name(lock.kind).into());
    object.insert("start".into(), json!(lock.start));
    keys::insert_json(&mut object, "primary", &lock.primary, hex);
    object.insert("for_update".into(), json!(lock.for_update));
    object.insert("min_commit".into(), json!(lock.min_commit));
    object.insert("ttl_ms".into(), json!(lock.ttl.as_millis() as u64));
    object.insert("txn_size".into(), lock.txn_size.into());
    object.insert("async_commit".into(), lock.secondaries.is_some().into());
    object
}

fn name(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Put => "put",
        LockKind::Delete => "delete",
        LockKind::Lock => "lock",
        LockKind::Pessimistic => "pessimistic",
    }
}
