//! Services that are slow, lose requests, refuse or do not answer.

use std::time::{Duration, Instant};

use tifs_testkit::etcd::Etcd;

use super::servers::{Mood, REASON, S3, Way};
use super::*;
use crate::file_system::{Caller, FileSystem, WriteContext};
use crate::schema::InodeNumber;
use crate::volume::{Volume, VolumeOptions};

/// A store with blocks in an object store that fails as the test wants.
fn on(etcd: &Etcd, s3: &S3, parameters: &str) -> EtcdKv {
    let url = format!(
        "etcd://{}/volume?{}&lease=1h&{parameters}",
        etcd.endpoints(),
        s3.parameters()
    );
    EtcdKv::open(&RemoteUrl::parse(&url).unwrap()).unwrap()
}

fn block(store: &EtcdKv, value: &[u8]) -> Result<Commit> {
    put_in(store, Space::Data, b"b", value)
}

#[test]
fn an_operation_whose_commits_get_lost_ends_in_time() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let way = Way::to(&etcd.endpoints());
    let url = format!(
        "etcd://{}/volume?blocks=file://{}&timeout=3s&lease=1h",
        way.address(),
        etcd.blocks().display()
    );
    let store = Arc::new(EtcdKv::open(&RemoteUrl::parse(&url).unwrap()).unwrap());
    Volume::make(&*store, &VolumeOptions::default()).unwrap();
    let volume = Volume::open(Arc::clone(&store) as _, VolumeOptions::default()).unwrap();
    let (caller, context) = (Caller { uid: 0, gid: 0 }, WriteContext::default());
    let file = { volume.make_node(&caller, InodeNumber::ROOT, b"f", 0o100644, 0, 0) }.unwrap();
    let write = || volume.write(file.number, 0, &vec![7; 1 << 20], context);
    way.loses.store(true, Ordering::Relaxed);
    let began = Instant::now();
    let error = write().unwrap_err();
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(error.errno(), Errno::TIMEDOUT, "{error}");
    assert!(
        error.is_failure() && error.to_string().contains("no answer"),
        "{error}"
    );
    way.loses.store(false, Ordering::Relaxed);
    eventually("the write succeeds", || write().is_ok());
    volume.close().unwrap();
}

#[test]
fn a_slow_object_store_is_used_again_after_a_silence() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let s3 = S3::start();
    let store = on(&etcd, &s3, "timeout=6s");
    assert_eq!(block(&store, b"one").unwrap(), Commit::Committed);
    // Each request takes longer than the short wait of what follows a silence.
    let slow = Mood {
        latency: Duration::from_millis(1300),
        ..Mood::default()
    };
    *s3.mood.lock() = slow.clone();
    assert_eq!(block(&store, b"two").unwrap(), Commit::Committed);
    s3.mood.lock().hangs = true;
    assert_eq!(block(&store, b"lost").unwrap_err().errno(), Errno::TIMEDOUT);
    let began = Instant::now();
    assert_eq!(block(&store, b"lost").unwrap_err().errno(), Errno::TIMEDOUT);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    *s3.mood.lock() = slow;
    eventually("a block is written", || block(&store, b"three").is_ok());
    let value = store.get(Space::Data, b"b").unwrap();
    assert_eq!(value.as_deref(), Some(&b"three"[..]));
    store.close().unwrap();
}

#[test]
fn work_behind_takes_no_patience_from_others() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let s3 = S3::start();
    let store = on(&etcd, &s3, "timeout=1s");
    assert_eq!(block(&store, b"one").unwrap(), Commit::Committed);
    s3.mood.lock().hangs = true;
    assert!(store.collect().is_err());
    assert!(!store.shared.objects.patience.is_silent());
    s3.mood.lock().hangs = false;
    store.close().unwrap();
}

#[test]
fn the_reason_of_a_failing_object_store_is_said() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let s3 = S3::start();
    let store = on(&etcd, &s3, "timeout=3s");
    assert_eq!(block(&store, b"one").unwrap(), Commit::Committed);
    // Refusals are said at once, and are no matter of the programs that write.
    for (status, errno) in [(400, Errno::IO), (403, Errno::IO), (503, Errno::TIMEDOUT)] {
        s3.mood.lock().status = Some(status);
        let began = Instant::now();
        let error = block(&store, b"two").unwrap_err();
        assert_eq!(error.errno(), errno, "{status}: {error}");
        assert!(error.to_string().contains(REASON), "{status}: {error}");
        assert!(
            error.is_failure() && !error.to_string().contains('\n'),
            "{error}"
        );
        let is_at_once = began.elapsed() < Duration::from_secs(2);
        assert!(
            is_at_once || status == 503,
            "{status}: {:?}",
            began.elapsed()
        );
    }
    s3.mood.lock().status = None;
    eventually("a block is written", || block(&store, b"three").is_ok());
    store.close().unwrap();
}

#[test]
fn a_sign_that_is_not_seen_at_once_is_waited_for() {
    let Some(etcd) = Etcd::start(1, &[]) else {
        return;
    };
    let s3 = S3::start();
    let store = on(&etcd, &s3, "");
    s3.mood.lock().unseen = 2;
    assert_eq!(block(&store, b"one").unwrap(), Commit::Committed);
    let names = s3.names();
    let signs = names
        .iter()
        .filter(|name| name.ends_with("/volume"))
        .count();
    assert_eq!(signs, 1, "{names:?}");
    // A process that opens the volume waits, too.
    s3.mood.lock().unseen = 2;
    store.close().unwrap();
    let store = on(&etcd, &s3, "");
    let value = store.get(Space::Data, b"b").unwrap();
    assert_eq!(value.as_deref(), Some(&b"one"[..]));
    store.close().unwrap();
}
