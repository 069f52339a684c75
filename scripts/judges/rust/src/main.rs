//! Calls of the crate `tikv-client` on a node: prints a line a check, and `N passed, N failed`.

use std::cell::Cell;
use tikv_client::{
    BoundRange, CheckLevel, Key, KvPair, RawClient, TransactionClient, TransactionOptions, Value,
};
thread_local! { static P: Cell<(u32,u32)> = Cell::new((0,0)); }
fn check(name: &str, r: Result<bool, String>) {
    P.with(|p| {
        let (a, b) = p.get();
        match r {
            Ok(true) => {
                println!("ok   {name}");
                p.set((a + 1, b));
            }
            Ok(false) => {
                println!("FAIL {name}");
                p.set((a, b + 1));
            }
            Err(e) => {
                println!("FAIL {name}: {e}");
                p.set((a, b + 1));
            }
        }
    });
}
fn e<T: std::fmt::Debug>(x: T) -> String {
    format!("{x:?}")
}
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let addr = std::env::args().nth(1).unwrap();
    let c = TransactionClient::new(vec![addr.clone()]).await.unwrap();
    let r = run(&c).await;
    if let Err(x) = r {
        check("transactional", Err(e(x)));
    }
    let raw = RawClient::new(vec![addr]).await.unwrap();
    if let Err(x) = raw_run(&raw).await {
        check("raw", Err(e(x)));
    }
    P.with(|p| {
        let (a, b) = p.get();
        println!("{a} passed, {b} failed");
        std::process::exit((b > 0) as i32)
    });
}
async fn run(c: &TransactionClient) -> Result<(), tikv_client::Error> {
    let mut t = c.begin_optimistic().await?;
    for i in 0..300u32 {
        t.put(format!("rs{i:04}"), vec![b'v'; 100]).await?;
    }
    check("commit", t.commit().await.map(|x| x.is_some()).map_err(e));
    let mut t = c.begin_optimistic().await?;
    check(
        "get",
        t.get("rs0007".to_owned())
            .await
            .map(|v| v == Some(vec![b'v'; 100]))
            .map_err(e),
    );
    check(
        "missing",
        t.get("nothing".to_owned())
            .await
            .map(|v| v.is_none())
            .map_err(e),
    );
    let rows: Vec<KvPair> = t
        .scan("rs".to_owned().."rt".to_owned(), 1000)
        .await?
        .collect();
    check("scan", Ok(rows.len() == 300));
    let rows: Vec<KvPair> = t
        .scan_reverse("rs".to_owned().."rt".to_owned(), 10)
        .await?
        .collect();
    check(
        "scan reverse",
        Ok(rows.len() == 10 && rows[0].0 == Key::from("rs0299".to_owned())),
    );
    let rows: Vec<Key> = t.scan_keys("rs".to_owned().., 1000).await?.collect();
    check("scan keys", Ok(rows.len() >= 300));
    let got: Vec<KvPair> = t
        .batch_get(vec![
            "rs0001".to_owned(),
            "none".to_owned(),
            "rs0002".to_owned(),
        ])
        .await?
        .collect();
    check("batch get", Ok(got.len() == 2));
    check("exists", t.key_exists("rs0001".to_owned()).await.map_err(e));
    t.rollback().await?;
    // insert
    let mut t = c.begin_optimistic().await?;
    t.insert("rs0001".to_owned(), "x".to_owned()).await.ok();
    check("insert of existing fails", Ok(t.commit().await.is_err()));
    let _ = t.rollback().await;
    for (name, o) in [
        ("1pc", TransactionOptions::new_optimistic().try_one_pc()),
        (
            "async",
            TransactionOptions::new_optimistic().use_async_commit(),
        ),
        ("p", TransactionOptions::new_pessimistic()),
        (
            "pasync",
            TransactionOptions::new_pessimistic().use_async_commit(),
        ),
        ("p1pc", TransactionOptions::new_pessimistic().try_one_pc()),
    ] {
        let mut t = c.begin_with_options(o.drop_check(CheckLevel::Warn)).await?;
        for i in 0..20 {
            t.put(format!("{name}{i}"), "v".to_owned()).await?;
        }
        check(name, t.commit().await.map(|_| true).map_err(e));
        let mut t = c.begin_optimistic().await?;
        check(
            "read",
            t.get(format!("{name}7"))
                .await
                .map(|v| v.is_some())
                .map_err(e),
        );
        t.rollback().await?;
    }
    // conflict
    let mut a = c.begin_optimistic().await?;
    let mut b = c.begin_optimistic().await?;
    a.put("cf".to_owned(), "1".to_owned()).await?;
    b.put("cf".to_owned(), "2".to_owned()).await?;
    a.commit().await?;
    check("conflict", Ok(b.commit().await.is_err()));
    let _ = b.rollback().await;
    // pessimistic
    let mut a = c.begin_pessimistic().await?;
    a.get_for_update("cf".to_owned()).await?;
    a.lock_keys(vec!["lk1".to_owned(), "lk2".to_owned()])
        .await?;
    let o = TransactionOptions::new_pessimistic()
        .no_resolve_locks()
        .drop_check(CheckLevel::Warn);
    let mut b = c.begin_with_options(o).await?;
    check(
        "locked",
        Ok(b.get_for_update("cf".to_owned()).await.is_err()),
    );
    let _ = b.rollback().await;
    a.put("cf".to_owned(), "3".to_owned()).await?;
    check(
        "pessimistic commit",
        a.commit().await.map(|_| true).map_err(e),
    );
    // heavy pessimistic counter
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let c = c.clone();
            async move {
                let mut ok = 0;
                for _ in 0..20 {
                    loop {
                        let mut t = c
                            .begin_with_options(
                                TransactionOptions::new_pessimistic().drop_check(CheckLevel::Warn),
                            )
                            .await
                            .unwrap();
                        let r: Result<(), tikv_client::Error> = async {
                            let v = t.get_for_update("counter".to_owned()).await?;
                            let n: u64 =
                                v.map_or(0, |v| String::from_utf8(v).unwrap().parse().unwrap());
                            t.put("counter".to_owned(), (n + 1).to_string()).await?;
                            t.commit().await?;
                            Ok(())
                        }
                        .await;
                        if r.is_ok() {
                            ok += 1;
                            break;
                        }
                        let _ = t.rollback().await;
                    }
                }
                ok
            }
        })
        .collect();
    let mut sum = 0;
    let mut set = tokio::task::JoinSet::new();
    for t in tasks {
        set.spawn(t);
    }
    while let Some(x) = set.join_next().await {
        sum += x.unwrap();
    }
    let mut t = c.begin_optimistic().await?;
    let v: Option<Value> = t.get("counter".to_owned()).await?;
    check("counter", Ok(sum == 160 && v == Some(b"160".to_vec())));
    println!("     {v:?}");
    t.rollback().await?;
    // large
    let mut t = c.begin_optimistic().await?;
    for i in 0..100 {
        t.put(format!("big{i:03}"), vec![b'b'; 64 << 10]).await?;
    }
    check("large values", t.commit().await.map(|_| true).map_err(e));
    let ts = c.current_timestamp().await?;
    check("gc", c.gc(ts).await.map(|_| true).map_err(e));
    check(
        "unsafe destroy",
        c.unsafe_destroy_range("big".to_owned().."bih".to_owned())
            .await
            .map(|_| true)
            .map_err(e),
    );
    let mut t = c.begin_optimistic().await?;
    check(
        "destroyed",
        t.scan("big".to_owned().."bih".to_owned(), 10)
            .await
            .map(|r| r.count() == 0)
            .map_err(e),
    );
    t.rollback().await?;
    Ok(())
}
async fn raw_run(r: &RawClient) -> Result<(), tikv_client::Error> {
    r.put("k".to_owned(), "v".to_owned()).await?;
    check(
        "raw get",
        Ok(r.get("k".to_owned()).await? == Some(b"v".to_vec())),
    );
    check(
        "raw missing",
        Ok(r.get("missing".to_owned()).await?.is_none()),
    );
    r.batch_put((0..500u32).map(|i| KvPair::from((format!("q{i:04}"), "v".to_owned()))))
        .await?;
    // A scan that reaches the last region goes on at the first one: rows come twice.
    check(
        "raw scan",
        Ok(r.scan("q".to_owned().."q0499x".to_owned(), 500)
            .await?
            .len()
            == 500),
    );
    check(
        "raw scan keys",
        Ok(r.scan_keys("q".to_owned().., 10).await?.len() == 10),
    );
    check(
        "raw batch scan",
        Ok(r.batch_scan(
            vec![
                BoundRange::from("q0000".to_owned().."q0010".to_owned()),
                BoundRange::from("q0100".to_owned().."q0110".to_owned()),
            ],
            100,
        )
        .await?
        .len()
            == 20),
    );
    check(
        "raw batch get",
        Ok(r.batch_get(vec!["q0001".to_owned(), "zz".to_owned()])
            .await?
            .len()
            == 1),
    );
    r.put_with_ttl("t".to_owned(), "v".to_owned(), 1000).await?;
    check(
        "raw ttl",
        Ok(r.get_key_ttl_secs("t".to_owned())
            .await?
            .is_some_and(|t| t > 900)),
    );
    let a = r.with_atomic_for_cas();
    check(
        "cas",
        Ok(a.compare_and_swap("cas1".to_owned(), None, "1".to_owned())
            .await?
            .1),
    );
    check(
        "cas no",
        Ok(!a
            .compare_and_swap("cas1".to_owned(), None, "1".to_owned())
            .await?
            .1),
    );
    r.delete_range("q".to_owned().."r".to_owned()).await?;
    check("deleted", Ok(r.get("q0001".to_owned()).await?.is_none()));
    Ok(())
}
