//! Connections beyond the limit, and those whose clients do not greet.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use titan_server::Limits;

use crate::cluster::Cluster;
use crate::limits::with;

/// The beginning of HTTP/2: its preface, settings, and the confirmation of the server's settings.
const GREETING: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";

fn connect(cluster: &Cluster, patience: Duration) -> TcpStream {
    let stream = TcpStream::connect(cluster.address()).unwrap();
    stream.set_read_timeout(Some(patience)).unwrap();
    stream
}

/// Returns true if the node ends the connection within its time.
fn ends(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 1024];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                return false;
            }
        }
    }
}

#[test]
fn a_connection_beyond_the_limit_ends_at_once_and_the_others_go_on() {
    let cluster = with(Limits {
        connections: 3,
        ..Limits::default()
    });
    let long = Duration::from_secs(60);
    // The cluster has one.
    let silent = [connect(&cluster, long), connect(&cluster, long)];
    assert!(ends(&mut connect(&cluster, long)));
    assert!(cluster.ts() > 0);
    drop(silent);
    // The node may need a moment to see that they have ended.
    let again = || {
        let mut stream = connect(&cluster, Duration::from_millis(100));
        ends(&mut stream)
    };
    while again() {}
}

#[test]
fn a_client_that_does_not_greet_is_cut_off_and_an_idle_one_is_not() {
    let cluster = with(Limits {
        unread: Duration::from_secs(1),
        ..Limits::default()
    });
    let mut silent = connect(&cluster, Duration::from_secs(60));
    let mut partly = connect(&cluster, Duration::from_secs(60));
    partly.write_all(&GREETING[..20]).unwrap();
    let mut idle = connect(&cluster, Duration::from_secs(2));
    idle.write_all(GREETING).unwrap();
    assert!(ends(&mut silent));
    assert!(ends(&mut partly));
    assert!(!ends(&mut idle));
}
