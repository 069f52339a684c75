//! Errors of the application's I/O, in functions that return this crate's `Result`.

use std::io;

use titan::{Error, ErrorKind, Result};

fn fails(error: impl Into<io::Error>) -> Result<()> {
    Err(error.into())?
}

#[test]
fn an_error_of_io_has_its_kind_and_says_whose_it_is() {
    for (io, kind) in [
        (io::ErrorKind::NotFound, ErrorKind::NotFound),
        (io::ErrorKind::AlreadyExists, ErrorKind::AlreadyExists),
        (io::ErrorKind::StorageFull, ErrorKind::NoSpace),
        (io::ErrorKind::PermissionDenied, ErrorKind::Io),
    ] {
        let e = fails(io).unwrap_err();
        assert_eq!((e.kind(), e.io_kind()), (kind, Some(io)));
        assert_eq!((e.message(), e.path()), ("I/O of the application", None));
    }
    let e = fails(io::Error::other("the plug is out")).unwrap_err();
    assert_eq!(
        e.to_string(),
        "io error: I/O of the application: the plug is out"
    );
}

#[test]
fn an_error_of_the_engine_comes_back_from_io_as_it_was() {
    let damaged = Error::corruption("bad block").at("/db/000007.sst".as_ref(), 4096);
    assert_eq!(fails(damaged.clone()), Err(damaged));
}
