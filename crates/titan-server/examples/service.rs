//! A service on an asynchronous runtime: axum and tokio in front, the engine behind.
//!
//! The calls of the engine block, so they run on the threads that tokio has for that. `Db` is a
//! handle: clones of it are the state of the service.
//!
//! `cargo run -p titandb-server --example service`

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use titan::{Db, Error, ErrorKind, Options, WriteOptions};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

type Result<T> = std::result::Result<T, Failure>;

/// An error of the engine as an answer.
struct Failure(Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0.kind() {
            ErrorKind::InvalidArgument => StatusCode::BAD_REQUEST,
            ErrorKind::Busy | ErrorKind::NoSpace => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, self.0.to_string()).into_response()
    }
}

/// Runs calls of the engine where they may block.
async fn on_engine<T: Send + 'static>(
    calls: impl FnOnce() -> titan::Result<T> + Send + 'static,
) -> Result<T> {
    let done = spawn_blocking(calls).await;
    let done = done.unwrap_or_else(|e| Err(Error::internal(e.to_string())));
    Ok(done?)
}

async fn read(State(db): State<Db>, Path(key): Path<String>) -> Result<Response> {
    // The value is one allocation, from the engine to the socket.
    Ok(match on_engine(move || db.get(key)).await? {
        Some(value) => value.into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}

/// Answers once the value survives a power failure. Requests that come together share a sync.
async fn write(State(db): State<Db>, Path(key): Path<String>, value: Bytes) -> Result<StatusCode> {
    on_engine(move || db.put_with(key, value, &WriteOptions::synced())).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn remove(State(db): State<Db>, Path(key): Path<String>) -> Result<StatusCode> {
    on_engine(move || db.delete_with(key, &WriteOptions::synced())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The first thousand keys, one a line.
async fn list(State(db): State<Db>) -> Result<String> {
    on_engine(move || {
        let keys = db.keys(..).take(1000);
        keys.map(|key| Ok(format!("{}\n", key?.escape_ascii())))
            .collect()
    })
    .await
}

fn service(db: Db) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/{key}", get(read).put(write).delete(remove))
        .with_state(db)
}

/// Sends a request and returns the status and the body of the answer.
fn request(to: SocketAddr, line: &str, body: &str) -> std::io::Result<(String, String)> {
    let mut stream = TcpStream::connect(to)?;
    let len = body.len();
    write!(
        stream,
        "{line} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    Ok((status.to_owned(), body.to_owned()))
}

#[tokio::main]
pub(crate) async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &Options::default())?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let server = axum::serve(listener, service(db.clone()));
    let server = server.with_graceful_shutdown(async { stopped.await.unwrap_or(()) });
    let server = tokio::spawn(server.into_future());

    // A program would wait for a signal; this one is its own client.
    let answers = spawn_blocking(move || {
        let requests = [
            ("PUT /greeting", "hello"),
            ("GET /greeting", ""),
            ("GET /", ""),
            ("DELETE /greeting", ""),
            ("GET /greeting", ""),
        ];
        let answers = requests.map(|(line, body)| request(address, line, body));
        answers.into_iter().collect::<std::io::Result<Vec<_>>>()
    });
    let answers = answers.await??;
    let expected = [
        ("204", ""),
        ("200", "hello"),
        ("200", "greeting\n"),
        ("204", ""),
        ("404", ""),
    ];
    let expected = expected.map(|(status, body)| (status.to_owned(), body.to_owned()));
    assert_eq!(answers, expected);

    stop.send(()).map_err(|()| "the server has ended")?;
    server.await??;
    spawn_blocking(move || db.close()).await??; // after the last request; it waits for jobs
    Ok(())
}
