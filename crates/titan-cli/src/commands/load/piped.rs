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
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: io::Cursor<Vec<u8>>,
}

impl Piped {
    pub(super) fn standard_input() -> Self {
        Piped::new(io::stdin())
    }

    fn new(mut input: impl Read + Send + 'static) -> Self {
        let (to_reader, chunks) = sync_channel(CHUNKS);
        // It ends with its input or with the reader, or else with the process.
        thread::spawn(move || {
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                let read = match input.read(&mut chunk) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Ok(0) => return,
                    read => read,
                };
                let failed = read.is_err();
                let sent = to_reader.send(read.map(|len| {
                    chunk.truncate(len);
                    chunk
                }));
                if failed || sent.is_err() {
                    return;
                }
            }
        });
        Piped {
            chunks,
            chunk: io::Cursor::default(),
        }
    }
}

impl Read for Piped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.chunk.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match self.chunks.recv_timeout(LOOK_EACH) {
                Ok(chunk) => self.chunk = io::Cursor::new(chunk?),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) if interrupt::has_come() => {
                    return Err(io::Error::other("interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => {}
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
        Piped::new(whole).read_to_end(&mut read).unwrap();
        assert!(read == bytes);
        read.clear();
        let failing = io::Cursor::new(bytes.clone()).chain(Fails);
        let error = Piped::new(failing).read_to_end(&mut read).unwrap_err();
        assert_eq!(error.to_string(), "no more");
        assert!(read == bytes);
    }
}
