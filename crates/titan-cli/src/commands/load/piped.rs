//! Standard input that the signal ends.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::interrupt;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks that are read before they are asked for.
const CHUNKS: usize = 4;
/// The time between two looks for the signal, while nothing comes.
const LOOK_EACH: Duration = Duration::from_millis(50);

/// An input that a thread of its own reads. After the signal a read fails, also while nothing
/// comes.
pub(super) struct Piped {
    /// Each has bytes; an empty one is the end.
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: io::Cursor<Vec<u8>>,
    has_ended: bool,
}

impl Piped {
    /// # Errors
    /// Those of making a thread.
    pub(super) fn standard_input() -> io::Result<Self> {
        Piped::new(io::stdin())
    }

    fn new(mut input: impl Read + Send + 'static) -> io::Result<Self> {
        let (to_reader, chunks) = sync_channel(CHUNKS);
        // It ends with its input or with the reader, or else with the process.
        let reader = thread::Builder::new().name("standard input".to_owned());
        reader.spawn(move || {
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                let read = match input.read(&mut chunk) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    read => read,
                };
                let is_last = !matches!(read, Ok(1..));
                let sent = to_reader.send(read.map(|len| {
                    chunk.truncate(len);
                    chunk
                }));
                if is_last || sent.is_err() {
                    return;
                }
            }
        })?;
        Ok(Piped {
            chunks,
            chunk: io::Cursor::default(),
            has_ended: false,
        })
    }
}

impl Read for Piped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.chunk.read(buffer)?;
            if read > 0 || buffer.is_empty() || self.has_ended {
                return Ok(read);
            }
            if interrupt::has_come() {
                return Err(io::Error::other("interrupted"));
            }
            match self.chunks.recv_timeout(LOOK_EACH) {
                Ok(chunk) => {
                    self.chunk = io::Cursor::new(chunk?);
                    self.has_ended = self.chunk.get_ref().is_empty();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("it ended before its end was read"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_comes_whole_and_an_error_at_its_place() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("no more"))
            }
        }
        let bytes: Vec<u8> = (0..3 * CHUNK_BYTES + 7).map(|n| (n % 251) as u8).collect();
        let mut read = Vec::new();
        let whole = io::Cursor::new(bytes.clone());
        let mut piped = Piped::new(whole).unwrap();
        piped.read_to_end(&mut read).unwrap();
        assert_eq!(piped.read(&mut [0]).unwrap(), 0, "the end stays");
        assert!(read == bytes);
        read.clear();
        let failing = io::Cursor::new(bytes.clone()).chain(Fails);
        let mut piped = Piped::new(failing).unwrap();
        let error = piped.read_to_end(&mut read).unwrap_err();
        assert_eq!(error.to_string(), "no more");
        assert!(read == bytes);
    }

    #[test]
    fn an_input_whose_thread_dies_has_not_ended() {
        struct Dies;
        impl Read for Dies {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                std::panic::resume_unwind(Box::new(()))
            }
        }
        let mut read = Vec::new();
        let mut piped = Piped::new(io::Cursor::new(b"1").chain(Dies)).unwrap();
        let error = piped.read_to_end(&mut read).unwrap_err().to_string();
        assert!(error.contains("before its end"), "{error}");
        assert_eq!(read, b"1");
    }
}
