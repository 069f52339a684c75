//! A document store: JSON under `collection/id`, changed by many threads without a lost update.
//!
//! A key means one document, since no collection has a `/` in its name. An id may have one.
//!
//! `cargo run -p titandb --example documents`

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use titan::{Db, Error, ErrorKind, Options, prefix};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Article {
    title: String,
    text: String,
    views: u64,
}

struct Documents {
    db: Db,
}

/// The beginning of the keys of a collection.
fn start(collection: &str) -> titan::Result<String> {
    match collection.contains('/') {
        true => Err(Error::invalid_argument("a collection has a / in its name")),
        false => Ok(format!("{collection}/")),
    }
}

fn key(collection: &str, id: &str) -> titan::Result<String> {
    Ok(start(collection)? + id)
}

impl Documents {
    fn put(&self, collection: &str, id: &str, document: &impl Serialize) -> Result<()> {
        let json = serde_json::to_vec(document)?;
        Ok(self.db.put(key(collection, id)?, json)?)
    }

    fn get<T: DeserializeOwned>(&self, collection: &str, id: &str) -> Result<Option<T>> {
        let json = self.db.get(key(collection, id)?)?;
        Ok(json.map(|json| serde_json::from_slice(&json)).transpose()?)
    }

    /// Changes a document; again from its new content if somebody else was faster. Returns whether
    /// there is one.
    fn update<T>(&self, collection: &str, id: &str, change: impl Fn(&mut T)) -> Result<bool>
    where
        T: Serialize + DeserializeOwned,
    {
        let key = key(collection, id)?;
        while let Some(before) = self.db.get(&key)? {
            let mut document = serde_json::from_slice(&before)?;
            change(&mut document);
            let after = serde_json::to_vec(&document)?;
            if self.db.compare_and_set(&key, Some(&before), Some(&after))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The ids of a collection, in their order. Reads no document.
    fn ids(&self, collection: &str) -> Result<Vec<String>> {
        let start = start(collection)?;
        let keys = self.db.prefix(&start).into_keys();
        keys.map(|key| Ok(str::from_utf8(&key?[start.len()..])?.to_owned()))
            .collect()
    }

    /// Deletes a collection: one entry in the log, however many documents there are.
    fn delete_all(&self, collection: &str) -> Result<()> {
        let start = start(collection)?;
        let end = prefix::end(&start).ok_or("a range without an end")?;
        Ok(self.db.delete_range(start, end)?)
    }
}

pub(crate) fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &Options::default())?;
    let documents = Documents { db: db.clone() };

    let trees = Article {
        title: "Trees that merge".into(),
        text: "A log comes first. ".repeat(1000), // large: it goes to a blob file
        views: 0,
    };
    documents.put("articles", "trees", &trees)?;
    documents.put("articles", "blobs", &trees)?;
    documents.put("authors", "ann", &"Ann")?;
    assert_eq!(documents.get("articles", "trees")?, Some(trees));
    assert_eq!(documents.ids("articles")?, ["blobs", "trees"]);
    let refused = key("articles/old", "trees").map_err(|e| e.kind());
    assert_eq!(refused, Err(ErrorKind::InvalidArgument));

    // Four readers count their views at the same time.
    let read = || -> Result<()> {
        for _ in 0..25 {
            documents.update("articles", "trees", |article: &mut Article| {
                article.views += 1
            })?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let readers = [(); 4].map(|()| scope.spawn(read));
        let ended = readers.map(|reader| reader.join().map_err(|_| "a reader panicked")?);
        ended.into_iter().collect::<Result<()>>()
    })?;
    let trees: Article = documents.get("articles", "trees")?.ok_or("no article")?;
    assert_eq!(trees.views, 100);
    assert!(!documents.update("articles", "none", |_: &mut Article| ())?);

    documents.delete_all("articles")?;
    assert!(documents.ids("articles")?.is_empty());
    assert_eq!(documents.ids("authors")?, ["ann"]);
    db.close()?;
    Ok(())
}
