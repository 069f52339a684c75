//! `titan mvcc versions`: lists the stored versions of a key.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use titan::Result;
use titan_mvcc::{Store, StoredVersion};

use crate::global::Global;
use crate::output::Out;
use crate::store::{read, translated};
use crate::{keys, status};

/// List the stored versions of a key, the newest first
///
/// A line is the commit timestamp, the start timestamp, the kind, and the value of a put, with
/// unprintable bytes as \xHH. The list includes versions before the safe point until a compaction
/// drops them. It omits a value that is still with the lock of its transaction, even if the
/// transaction has committed and titan mvcc get prints it: titan mvcc locks lists the lock. With
/// --json: one object with the key, the safe point and the versions. The exit status is 4 if there
/// is none.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the store.
    db: PathBuf,
    /// The key: text, or hexadecimal after 0x.
    key: OsString,
    /// Print values in hexadecimal.
    #[arg(long)]
    hex: bool,
}

const EXAMPLES: &str = "Examples:
  titan mvcc versions history.db greeting
  titan mvcc versions history.db greeting --json | jq '.versions[].commit'";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let key = keys::parse(&args.key)?;
    let store = read(&args.db, global)?;
    let mut versions = store.versions(&key).map_err(translated)?.peekable();
    if versions.peek().is_none() {
        let text = format!("key {}", keys::escaped(&key));
        return Ok(status::no_key(text));
    }
    let mut out = Out::new();
    if global.json {
        out.json(&document(&store, &key, versions, args.hex)?)?;
    } else {
        for version in versions {
            out.bytes(&line(&version.map_err(translated)?, args.hex)?)?;
        }
    }
    out.flush()?;
    store.close().map_err(translated)?;
    Ok(ExitCode::SUCCESS)
}

fn line(version: &StoredVersion, hex: bool) -> Result<Vec<u8>> {
    let (commit, start) = (version.commit, version.start);
    let mut line = format!("{commit} {start} {}", version.kind.name()).into_bytes();
    if let Some(value) = &version.value {
        line.extend_from_slice(b" : ");
        let push = match hex {
            true => keys::push_hex,
            false => keys::push_escaped,
        };
        push(&mut line, &value.fetch()?);
    }
    line.push(b'\n');
    Ok(line)
}

fn document(
    store: &Store,
    key: &[u8],
    versions: impl Iterator<Item = titan_mvcc::Result<StoredVersion>>,
    hex: bool,
) -> Result<Value> {
    let listed = versions.map(|version| {
        let version = version.map_err(translated)?;
        let mut object = Map::new();
        object.insert("commit".into(), json!(version.commit));
        object.insert("start".into(), json!(version.start));
        object.insert("kind".into(), version.kind.name().into());
        if let Some(value) = &version.value {
            keys::insert_json(&mut object, "value", &value.fetch()?, hex);
        }
        Ok(Value::Object(object))
    });
    let listed: Vec<Value> = listed.collect::<Result<_>>()?;
    let mut object = Map::new();
    keys::insert_json(&mut object, "key", key, hex);
    object.insert("safe_point".into(), json!(store.safe_point()));
    object.insert("versions".into(), listed.into());
    Ok(Value::Object(object))
}
