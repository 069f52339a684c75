//! Servers that fail as a test wants: an object store, and a way to a member of etcd.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

/// The content of the answer of a store that fails.
pub(super) const REASON: &str = "made up by the test";

/// An object store that speaks the protocol of S3, as far as TiFS needs it.
pub(super) struct S3 {
    pub(super) mood: Arc<Mutex<Mood>>,
    objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    credentials: tempfile::NamedTempFile,
}

/// The behaviour of an object store.
#[derive(Clone, Default)]
pub(super) struct Mood {
    pub(super) latency: Duration,
    pub(super) hangs: bool,
    /// The status of all answers.
    pub(super) status: Option<u16>,
    /// Times that the sign of a volume is not there, after it was stored.
    pub(super) unseen: u32,
}

impl S3 {
    pub(super) fn start() -> S3 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut credentials = tempfile::NamedTempFile::new().unwrap();
        let address = listener.local_addr().unwrap();
        for line in [
            "AWS_ACCESS_KEY_ID=id",
            "AWS_SECRET_ACCESS_KEY=secret",
            "AWS_REGION=here",
            &format!("AWS_ENDPOINT=http://{address}"),
        ] {
            writeln!(credentials, "{line}").unwrap();
        }
        let s3 = S3 {
            mood: Arc::default(),
            objects: Arc::default(),
            credentials,
        };
        let (mood, objects) = (Arc::clone(&s3.mood), Arc::clone(&s3.objects));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (mood, objects) = (Arc::clone(&mood), Arc::clone(&objects));
                // A client that is gone ends it.
                thread::spawn(move || while answer(&stream, &mood, &objects).is_some() {});
            }
        });
        s3
    }

    /// Parameters of the address of a volume.
    pub(super) fn parameters(&self) -> String {
        let credentials = self.credentials.path().display();
        format!("blocks=s3://bucket/blocks&credentials={credentials}")
    }

    /// The names of all objects.
    pub(super) fn names(&self) -> Vec<String> {
        self.objects.lock().keys().cloned().collect()
    }
}

fn answer(
    stream: &TcpStream,
    mood: &Mutex<Mood>,
    objects: &Mutex<BTreeMap<String, Vec<u8>>>,
) -> Option<()> {
    let mut input = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        let read = input.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    };
    let first = line()?;
    let (method, target) = first.split_once(' ')?;
    let target = target.split(' ').next()?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (mut length, mut is_new) = (0, false);
    loop {
        let header = line()?.to_ascii_lowercase();
        match header.split_once(": ") {
            None => break,
            Some(("content-length", value)) => length = value.parse().ok()?,
            Some(("if-none-match", _)) => is_new = true,
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    let now = mood.lock().clone();
    while mood.lock().hangs {
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(now.latency);
    let mut objects = objects.lock();
    let (mut status, mut content, path) = (200, Vec::new(), path.to_owned());
    if let Some(other) = now.status {
        (status, content) = (other, format!("<Error>{REASON}</Error>").into_bytes());
    } else if query.contains("list-type") {
        content = listed(&objects, query).into_bytes();
    } else {
        match method {
            "PUT" if is_new && objects.contains_key(&path) => status = 412,
            "PUT" => drop(objects.insert(path, body)),
            "GET" | "HEAD" if path.ends_with("/volume") && now.unseen > 0 => {
                mood.lock().unseen -= 1;
                status = 404;
            }
            "GET" | "HEAD" => match objects.get(&path) {
                Some(found) => content = found.clone(),
                None => status = 404,
            },
            _ => status = 501,
        }
    }
    let length = content.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nETag: \"x\"\r\n\
         Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n"
    );
    let mut output = stream;
    output.write_all(head.as_bytes()).ok()?;
    if method != "HEAD" {
        output.write_all(&content).ok()?;
    }
    Some(())
}

/// The list of all objects, for any prefix: there is one volume.
fn listed(objects: &BTreeMap<String, Vec<u8>>, _query: &str) -> String {
    let one = |(path, content): (&String, &Vec<u8>)| {
        let key = path.trim_start_matches("/bucket/");
        format!(
            "<Contents><Key>{key}</Key><Size>{}</Size><ETag>x</ETag>\
             <LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>",
            content.len()
        )
    };
    let all: String = objects.iter().map(one).collect();
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{all}</ListBucketResult>")
}

/// A way to a member of etcd, on which large requests get lost: a connection that had one brings
/// nothing more there.
pub(super) struct Way {
    address: SocketAddr,
    pub(super) loses: Arc<AtomicBool>,
}

impl Way {
    /// The most bytes that arrive at once.
    const SMALL: usize = 3000;

    pub(super) fn to(member: &str) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, member) = (listener.local_addr().unwrap(), member.to_owned());
        let loses = Arc::new(AtomicBool::new(false));
        let is_losing = Arc::clone(&loses);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&member) else {
                    continue;
                };
                let (back, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let is_losing = Arc::clone(&is_losing);
                thread::spawn(move || Way::bring(&client, &server, &is_losing));
                thread::spawn(move || Way::bring(&back, &to_client, &AtomicBool::new(false)));
            }
        });
        Way { address, loses }
    }

    fn bring(mut from: &TcpStream, mut to: &TcpStream, loses: &AtomicBool) {
        let (mut bytes, mut is_lost) = (vec![0; 1 << 16], false);
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
        {
            is_lost |= count > Way::SMALL && loses.load(Ordering::Relaxed);
            if !is_lost && to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}
