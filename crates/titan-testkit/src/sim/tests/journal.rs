//! The journal: crash points, marks, restarts.

use titan::vfs::Vfs;

use super::{crash, fresh, names, p, put};
use crate::sim::{Loss, Mark, SimVfs};

#[test]
fn crash_points_agree_with_crashes_from_the_start() {
    for seed in 0..20 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let vfs = fresh();
        for n in 0..60 {
            let (a, b) = (
                format!("/db/{}", rng.u8(..5)),
                format!("/db/{}", rng.u8(..5)),
            );
            match rng.u8(..6) {
                0 => drop(vfs.rename(p(&a), p(&b))),
                1 => drop(vfs.remove(p(&a))),
                2 => vfs.sync_dir(p("/db")).unwrap(),
                _ => {
                    let mut f = put(&vfs, &a, &vec![n; rng.usize(..9000)]);
                    if rng.bool() {
                        f.sync().unwrap();
                    }
                }
            }
        }
        let journal = vfs.journal();
        let dump = |vfs: &SimVfs| -> Vec<_> {
            let names = vfs.list("/db").unwrap();
            names
                .iter()
                .map(|n| (n.clone(), vfs.read_all(p("/db").join(n)).unwrap()))
                .collect()
        };
        let points = journal.crash_points();
        assert_eq!(points.len(), journal.len() + 1);
        for point in points.step_by(7) {
            for loss in [
                Loss::None,
                Loss::All,
                Loss::Random(seed),
                Loss::Random(seed + 1),
            ] {
                let once = dump(&point.crash(&loss));
                let again = dump(&journal.crash_at(point.index(), &loss));
                assert!(
                    once == again,
                    "seed {seed} point {} {loss:?}",
                    point.index()
                );
            }
        }
        assert!(dump(&vfs) == dump(&crash(&vfs, Loss::None)), "seed {seed}");
    }
}

#[test]
fn marks_keep_their_place_in_the_order() {
    let vfs = fresh();
    let mut f = put(&vfs, "/db/f", b"a");
    f.sync().unwrap();
    vfs.mark(1);
    vfs.mark("half way");
    f.append(b"b").unwrap();
    vfs.mark(2);
    let journal = vfs.journal();
    let text =
        "create /db/f\nappend /db/f 1\nsync /db/f\n-- 1\n-- half way\nappend /db/f 1\n-- 2\n";
    assert_eq!(journal.to_string(), text);
    assert_eq!(journal.marks_before(2), []);
    assert_eq!(
        journal.marks_before(3),
        [Mark::from(1), Mark::from("half way")]
    );
    let acknowledged: Vec<u64> = journal.crash_points().map(|p| p.acknowledged()).collect();
    assert_eq!(acknowledged, [0, 0, 0, 1, 2]);
}

#[test]
fn a_restarted_journal_goes_on_from_what_is_there() {
    let vfs = fresh();
    let mut f = put(&vfs, "/db/f", b"a");
    vfs.restart_journal();
    f.append(b"b").unwrap();
    let journal = vfs.journal();
    assert_eq!(journal.len(), 1);
    assert_eq!(
        journal.crash_at(0, &Loss::None).read_all("/db/f").unwrap(),
        b"a"
    );
    assert_eq!(
        journal.crash_at(1, &Loss::None).read_all("/db/f").unwrap(),
        b"ab"
    );
    assert_eq!(names(&journal.crash_at(1, &Loss::All)), "");
}
