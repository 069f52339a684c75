//! The content of a file: its size, and the pages that are not zeros.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

const PAGE: u64 = 4096;

type Page = [u8; PAGE as usize];

/// Content with holes. Two are equal if all bytes are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    size: u64,
    /// By number; none is only zeros.
    pages: BTreeMap<u64, Arc<Page>>,
}

impl Content {
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Changes the size. What is added is zeros.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.zero(size, self.size);
        }
        self.size = size;
    }

    /// Writes; the file becomes as long as needed.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        self.size = self.size.max(end);
        for page in offset / PAGE..end.div_ceil(PAGE) {
            let (start, from) = (page * PAGE, offset.max(page * PAGE));
            let to = end.min(start + PAGE);
            let data = &data[(from - offset) as usize..(to - offset) as usize];
            let stored = self
                .pages
                .entry(page)
                .or_insert_with(|| Arc::new([0; PAGE as usize]));
            Arc::make_mut(stored)[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(data);
            self.normalize(page);
        }
    }

    /// Makes a range zeros, as far as it is in the file.
    pub fn zero(&mut self, from: u64, to: u64) {
        let to = to.min(self.size).max(from);
        let pages: Vec<u64> = self.pages_within(from, to).map(|(page, _)| page).collect();
        for page in pages {
            let start = page * PAGE;
            let (from, to) = (from.max(start) - start, to.min(start + PAGE) - start);
            if let Some(bytes) = self.pages.get_mut(&page).filter(|_| from < to) {
                Arc::make_mut(bytes)[from as usize..to as usize].fill(0);
            }
            self.normalize(page);
        }
    }

    /// At most `length` bytes, up to the end of the file.
    pub fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let end = offset.saturating_add(length).min(self.size).max(offset);
        let mut data = vec![0; (end - offset) as usize];
        for (page, bytes) in self.pages_within(offset, end) {
            let start = page * PAGE;
            let (from, to) = (offset.max(start), end.min(start + PAGE));
            data[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
        data
    }

    /// Whether a range has zeros only.
    pub fn is_zero(&self, from: u64, to: u64) -> bool {
        self.pages_within(from, to).all(|(page, bytes)| {
            let start = page * PAGE;
            let (from, to) = (from.max(start) - start, to.min(start + PAGE) - start);
            bytes[from as usize..to as usize]
                .iter()
                .all(|byte| *byte == 0)
        })
    }

    /// Equal for equal bytes, and hardly ever for others.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.size.hash(&mut hasher);
        for (page, bytes) in &self.pages {
            page.hash(&mut hasher);
            bytes.hash(&mut hasher);
        }
        hasher.finish()
    }

    fn pages_within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &Arc<Page>)> {
        let pages = from / PAGE..to.div_ceil(PAGE);
        self.pages.range(pages).map(|(page, bytes)| (*page, bytes))
    }

    fn normalize(&mut self, page: u64) {
        if self
            .pages
            .get(&page)
            .is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
        {
            self.pages.remove(&page);
        }
    }
}

#[test]
fn content_is_what_a_vector_has() {
    let mut random = fastrand::Rng::with_seed(3);
    let (mut content, mut vector) = (Content::default(), Vec::<u8>::new());
    for _ in 0..2000 {
        let (offset, length) = (random.usize(..20_000), random.usize(1..10_000));
        let end = offset + length;
        match random.u8(..4) {
            0 => {
                let data = vec![random.u8(..); length];
                content.write(offset as u64, &data);
                vector.resize(vector.len().max(end), 0);
                vector[offset..end].copy_from_slice(&data);
            }
            1 => {
                content.resize(offset as u64);
                vector.resize(offset, 0);
            }
            2 => {
                content.zero(offset as u64, end as u64);
                let (from, to) = (offset.min(vector.len()), end.min(vector.len()));
                vector[from..to].fill(0);
            }
            _ => {
                let (from, to) = (offset.min(vector.len()), end.min(vector.len()));
                assert_eq!(content.read(offset as u64, length as u64), vector[from..to]);
                let zeros = vector[from..to].iter().all(|byte| *byte == 0);
                assert_eq!(content.is_zero(offset as u64, end as u64), zeros);
            }
        }
        assert_eq!(content.read(0, u64::MAX), vector);
        let mut same = Content::default();
        same.write(0, &vector);
        assert_eq!(
            (&same, same.fingerprint()),
            (&content, content.fingerprint())
        );
    }
}
