//! A read that the disk holds up.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use titan::{DbOptions, EventListener, FlushEvent};
use titan_server::proto::kvrpcpb::RawGetRequest;
use titan_server::proto::tikvpb::batch_commands_request::request::Cmd;
use titan_server::proto::tikvpb::batch_commands_response::response::Cmd as Told;
use titan_server::{NodeOptions, StorageOptions};
use titan_testkit::sim::{OpKind, SimVfs};
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::memory::{batch, batches};
use crate::place::Place;

/// A disk whose reads of tables and blob files wait while it is shut. Opens when it is dropped.
pub struct Shut(Arc<(Mutex<bool>, Condvar)>);

impl Shut {
    pub fn on(vfs: &SimVfs) -> Self {
        let state = Arc::new((Mutex::new(true), Condvar::new()));
        let seen = Arc::clone(&state);
        vfs.set_hook(move |call| {
            if call.kind == OpKind::Read && has_entries(call.path) {
                let (is_shut, opened) = &*seen;
                let is_shut = is_shut.lock().unwrap();
                drop(opened.wait_while(is_shut, |is_shut| *is_shut).unwrap());
            }
        });
        Shut(state)
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap() = false;
        self.0.1.notify_all();
    }
}

/// Whether a flush that wrote large values has ended.
#[derive(Default)]
pub struct Flushed(AtomicBool);

impl Flushed {
    pub fn has_large_values(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl EventListener for Flushed {
    fn flush_finished(&self, event: &FlushEvent) {
        self.0.fetch_or(event.blob_bytes > 0, Ordering::Relaxed);
    }
}

fn has_entries(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "sst" || e == "blob")
}

fn get(cluster: &Cluster, key: &str) -> Cmd {
    Cmd::RawGet(Box::new(RawGetRequest {
        context: cluster.context(),
        key: key.to_owned().into(),
        ..RawGetRequest::default()
    }))
}

#[test]
fn a_read_that_waits_for_the_disk_holds_no_ready_answer_back() {
    const FAR: usize = 100_000;
    const PATIENCE: Duration = Duration::from_secs(60);
    let place = Place::new();
    let flushed = Arc::new(Flushed::default());
    let options = place.options();
    let cluster = place.start_with(NodeOptions {
        storage: StorageOptions {
            db: DbOptions {
                db_write_buffer_size: 64 << 10,
                listeners: vec![Arc::clone(&flushed) as Arc<dyn EventListener>],
                ..options.storage.db
            },
            ..options.storage
        },
        ..options
    });
    assert_eq!(cluster.raw_put("far", vec![7; FAR]).error, "");
    // More memtables than the limit allows: "far" goes to the disk.
    while !flushed.has_large_values() {
        cluster.raw_put("between", vec![0; 10_000]);
    }
    assert_eq!(cluster.raw_put("near", vec![1]).error, "");
    let calls = ["near", "far", "near"].map(|key| get(&cluster, key));
    cluster.runtime.block_on(async {
        let shut = Shut::on(&place.vfs);
        let (send, mut answers) = batches(&cluster).await;
        send.send(batch(0, calls)).await.unwrap();
        let mut answered = Vec::new();
        while answered.len() < 2 {
            let answer = timeout(PATIENCE, answers.message()).await;
            answered.extend(answer.unwrap().unwrap().unwrap().request_ids);
        }
        assert_eq!(answered, [0, 2]);
        drop(shut);
        let answer = timeout(PATIENCE, answers.message()).await;
        let answer = answer.unwrap().unwrap().unwrap();
        assert_eq!(answer.request_ids, [1]);
        match answer.responses.into_iter().next().unwrap().cmd {
            Some(Told::RawGet(far)) => assert_eq!(far.value.len(), FAR),
            other => panic!("{other:?}"),
        }
    });
}
