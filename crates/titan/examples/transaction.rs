//! A transaction that is tried again if another writer was faster.

use titan::{Db, Options};

fn balance(value: Option<titan::Bytes>) -> u64 {
    let bytes = value.and_then(|value| value.as_ref().try_into().ok());
    bytes.map_or(0, u64::from_be_bytes)
}

pub(crate) fn main() -> titan::Result<()> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &Options::default())?;
    db.put(b"alice", &100_u64.to_be_bytes())?;

    // Four threads move one unit each. Keys that were read for update must not have changed when
    // the transaction commits; if one has, the closure runs again.
    let moved = std::thread::scope(|scope| {
        let transfer = || {
            db.transaction(|t| {
                let alice = balance(t.get_for_update(&db, "alice")?);
                let bob = balance(t.get_for_update(&db, "bob")?);
                t.put(&db, "alice", (alice - 1).to_be_bytes())?;
                t.put(&db, "bob", (bob + 1).to_be_bytes())
            })
        };
        let threads = [(); 4].map(|()| scope.spawn(transfer));
        threads.map(|thread| thread.join().is_ok_and(|moved| moved.is_ok()))
    });
    assert_eq!(moved, [true; 4]);

    assert_eq!(balance(db.get(b"alice")?), 96);
    assert_eq!(balance(db.get(b"bob")?), 4);
    Ok(())
}
