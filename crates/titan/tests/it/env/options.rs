//! Options of an `Env`, and those that contradict it.

use titan::{Db, Env, EnvOptions, ErrorKind};
use titan_testkit::sim::SimVfs;

use super::in_env;

#[test]
fn options_that_no_env_may_have_are_refused_by_name() {
    type Change = fn(&mut EnvOptions);
    let refused: [(Change, &str); 3] = [
        (|o| o.max_background_jobs = 0, "max_background_jobs"),
        (|o| o.db_write_buffer_size = 1, "db_write_buffer_size"),
        (|o| o.block_cache_size = u64::MAX, "block_cache_size"),
    ];
    for (change, name) in refused {
        let mut options = EnvOptions::default();
        change(&mut options);
        let error = Env::new(options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn what_the_env_states_is_refused_beside_it_when_a_database_is_opened_and_later() {
    let env = Env::new(EnvOptions::default()).unwrap();
    let vfs = SimVfs::new();
    let mut options = in_env(&env, &vfs);
    options.db.block_cache_size = 1 << 20;
    let error = Db::open("/db", &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(
        error
            .to_string()
            .contains("EnvOptions::block_cache_size instead"),
        "{error}"
    );
    assert_eq!(vfs.used(), 0, "nothing has been written");

    let db = Db::open("/db", &in_env(&env, &vfs)).unwrap();
    for name in [
        "block_cache_size",
        "max_open_files",
        "blob_garbage_collection_rate",
    ] {
        let error = db.set_options(&[(name, "1048576")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains(name), "{error}");
    }
    db.put("k", "v").unwrap();
    db.close().unwrap();
}
