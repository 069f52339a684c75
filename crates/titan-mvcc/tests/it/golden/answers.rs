//! Results of steps as text.

use titan_mvcc::{
    CheckedStatus, Error, LockInfo, LockKind, LockedKey, Result, Row, SecondariesStatus,
    StatusAction, StoredVersion, TransactionStatus,
};

use super::names::Names;
use super::steps::TTL;

/// The text of a key or value.
pub(super) fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

pub(super) fn value(value: Option<impl AsRef<[u8]>>) -> String {
    value.map_or("none".to_owned(), |value| text(value.as_ref()))
}

pub(super) fn failure(error: &Error, names: &mut Names) -> String {
    match error {
        Error::Conflict {
            key,
            start,
            committed,
            ..
        } => format!(
            "Conflict on {}: committed at {}, after {}",
            text(key),
            names.show(*committed),
            names.show(*start)
        ),
        Error::KeyIsLocked(info) => format!("KeyIsLocked: {}", lock(info, names)),
        Error::Deadlock { key, circle, keys } => {
            let waits = circle.iter().zip(keys);
            let waits = waits.map(|(start, key)| format!("{} {}", names.show(*start), text(key)));
            let waits: Vec<String> = waits.collect();
            format!("Deadlock on {}: {}", text(key), waits.join(", "))
        }
        Error::AlreadyExists { key } => format!("AlreadyExists: {}", text(key)),
        Error::AssertionFailed {
            key,
            must_exist,
            existing,
            ..
        } => {
            let asserted = if *must_exist { "a value" } else { "none" };
            let found = existing
                .map(|(start, commit)| format!("{}<-{}", names.show(commit), names.show(start)));
            format!(
                "AssertionFailed: {} has {asserted}; found {}",
                text(key),
                found.unwrap_or_else(|| "nothing".to_owned())
            )
        }
        Error::AlreadyCommitted { key, committed, .. } => {
            format!(
                "AlreadyCommitted {} at {}",
                text(key),
                names.show(*committed)
            )
        }
        Error::RolledBack { key, .. } => format!("RolledBack on {}", text(key)),
        Error::LockNotFound { key, .. } => format!("LockNotFound on {}", text(key)),
        Error::PessimisticLockNotFound { key, .. } => {
            format!("PessimisticLockNotFound on {}", text(key))
        }
        Error::NotAdmitted { key } => format!("NotAdmitted: {}", text(key)),
        Error::PrewrittenAlready { key, .. } => format!("PrewrittenAlready: {}", text(key)),
        Error::TransactionNotFound { primary, .. } => {
            format!("TransactionNotFound on {}", text(primary))
        }
        Error::PrimaryMismatch { lock: info, .. } => {
            format!("PrimaryMismatch: {}", lock(info, names))
        }
        Error::CommitTsExpired {
            key, min_commit, ..
        } => format!(
            "CommitTsExpired on {}: from {} on",
            text(key),
            names.show(*min_commit)
        ),
        Error::BeforeSafePoint { asked, safe_point } => format!(
            "BeforeSafePoint: {} is before {}",
            names.show(*asked),
            names.show(*safe_point)
        ),
        Error::SafePointBackwards { safe_point, .. } => {
            format!("SafePointBackwards from {}", names.show(*safe_point))
        }
        Error::InFuture { .. } => "InFuture".to_owned(),
        Error::Engine(e) => format!("{:?}", e.kind()),
        other => format!("{other}"),
    }
}

pub(super) fn lock(info: &LockInfo, names: &mut Names) -> String {
    let kind = match info.kind {
        LockKind::Put => "put",
        LockKind::Delete => "delete",
        LockKind::Lock => "lock",
        LockKind::Pessimistic => "pessimistic",
    };
    let mut line = format!(
        "{} {kind} by {} primary {} from {}",
        text(&info.key),
        names.show(info.start),
        text(&info.primary),
        names.show(info.min_commit)
    );
    if info.ttl != TTL {
        line += &format!(" ttl {} s", info.ttl.as_secs());
    }
    line + &secondary_keys(info)
}

/// The secondary keys of an async commit, on the lock of its primary key.
fn secondary_keys(info: &LockInfo) -> String {
    let Some(secondaries) = &info.secondaries else {
        return String::new();
    };
    let keys: Vec<String> = secondaries.iter().map(|key| text(key)).collect();
    format!(" async[{}]", keys.join(","))
}

pub(super) fn status(status: &TransactionStatus, names: &mut Names) -> String {
    match status {
        TransactionStatus::Running { lock, is_pushed } => {
            let secondaries = secondary_keys(lock);
            let pushed = if *is_pushed { ", pushed" } else { "" };
            let from = names.show(lock.min_commit);
            format!("running from {from}{secondaries}{pushed}")
        }
        TransactionStatus::Committed(at) => format!("committed at {}", names.show(*at)),
        TransactionStatus::RolledBack => "rolled back".to_owned(),
    }
}

pub(super) fn checked(checked: &CheckedStatus, names: &mut Names) -> String {
    let found = match &checked.status {
        Some(found) => status(found, names),
        None => "no trace".to_owned(),
    };
    let action = match checked.action {
        StatusAction::Nothing => "nothing done",
        StatusAction::Pushed => "pushed",
        StatusAction::ExpiredRolledBack => "rolled back after it expired",
        StatusAction::MissingRolledBack => "rolled back without a trace",
        StatusAction::ExpiredUnlocked => "unlocked after it expired",
        StatusAction::MissingLeft => "left without a trace",
    };
    format!("{found} ({action})")
}

/// The state of a key after a request for its lock.
pub(super) fn locked(key: &LockedKey, names: &mut Names) -> String {
    let mut line = match (&key.value, key.exists) {
        (Some(value), _) => text(value),
        (None, Some(true)) => "exists".to_owned(),
        (None, Some(false)) => "none".to_owned(),
        (None, None) => "unknown".to_owned(),
    };
    if !key.is_locked {
        line += " not locked";
    }
    if let Some(at) = key.conflict {
        line += &format!(" conflict at {}", names.show(at));
    }
    line
}

pub(super) fn secondaries(status: &SecondariesStatus, names: &mut Names) -> String {
    match status {
        SecondariesStatus::Locked(locks) => {
            let locks: Vec<String> = locks.iter().map(|info| lock(info, names)).collect();
            format!("locked: {}", locks.join("; "))
        }
        SecondariesStatus::Committed(at) => format!("committed at {}", names.show(*at)),
        SecondariesStatus::RolledBack => "rolled back".to_owned(),
    }
}

/// A stored version: its kind, its commit, its start, and its value.
pub(super) fn version(version: &StoredVersion, names: &mut Names) -> String {
    let kind = version.kind.name();
    let commit = names.show(version.commit);
    if version.start == version.commit {
        return format!("{kind} {commit}");
    }
    let start = names.show(version.start);
    match &version.value {
        Some(value) => format!("{kind} {commit}<-{start}={}", text(&value.fetch().unwrap())),
        None => format!("{kind} {commit}<-{start}"),
    }
}

pub(super) fn all(lines: Vec<String>) -> String {
    match lines.is_empty() {
        true => "none".to_owned(),
        false => lines.join("; "),
    }
}

/// The rows of a scan.
pub(super) fn rows(scan: impl Iterator<Item = Result<Row>>) -> Result<String> {
    let mut rows = Vec::new();
    for row in scan {
        let row = row?;
        rows.push(format!("{}={}", text(&row.key), text(&row.value.fetch()?)));
    }
    Ok(all(rows))
}
