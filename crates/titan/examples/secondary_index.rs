//! A secondary index: users by number, by e-mail address, which is unique, and by town.
//!
//! Each index is a column family. A transaction changes the user and both indexes together.
//!
//! `cargo run -p titandb --example secondary_index`

use std::path::Path;

use serde::{Deserialize, Serialize};
use titan::{ColumnFamily, Db, Error, ErrorKind, Options, Result, Transaction};

struct Users {
    db: Db,
    users: ColumnFamily,
    by_email: ColumnFamily,
    by_town: ColumnFamily,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct User {
    email: String,
    town: String,
}

impl User {
    fn new(email: &str, town: &str) -> Self {
        let (email, town) = (email.to_owned(), town.to_owned());
        User { email, town }
    }

    fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::invalid_argument(e.to_string()))
    }

    fn from_json(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|e| Error::corruption(e.to_string()))
    }

    /// The key in the index of towns: many users may be in one.
    fn town_key(&self, id: u64) -> Result<Vec<u8>> {
        Ok([&town_start(&self.town)?, &id.to_be_bytes()[..]].concat())
    }
}

/// The beginning of the keys of a town. It is that of no other town, since none has a zero byte in
/// its name.
fn town_start(town: &str) -> Result<Vec<u8>> {
    match town.contains('\0') {
        true => Err(Error::invalid_argument(
            "a town has a zero byte in its name",
        )),
        false => Ok([town.as_bytes(), b"\0"].concat()),
    }
}

impl Users {
    fn open(path: &Path) -> Result<Self> {
        let mut options = Options::default();
        for family in ["users", "by email", "by town"] {
            options.families.insert(family.into(), Default::default());
        }
        let db = Db::open(path, &options)?; // creates families that do not exist
        let family = |name| {
            let missing = || Error::new(ErrorKind::NotFound, name);
            db.column_family(name).ok_or_else(missing)
        };
        Ok(Users {
            users: family("users")?,
            by_email: family("by email")?,
            by_town: family("by town")?,
            db,
        })
    }

    /// Sets a user, or fails with `AlreadyExists` if another one has the e-mail address.
    fn set(&self, id: u64, user: &User) -> Result<()> {
        self.db.transaction(|t| {
            self.remove_from(t, id)?;
            // Read for update: the commit fails, and runs again, if somebody takes the address now.
            if t.get_for_update(&self.by_email, &user.email)?.is_some() {
                let taken = format!("{} is another user's", user.email);
                return Err(Error::new(ErrorKind::AlreadyExists, taken));
            }
            t.put(&self.by_email, &user.email, id.to_be_bytes())?;
            t.put(&self.by_town, user.town_key(id)?, "")?;
            t.put(&self.users, id.to_be_bytes(), user.to_json()?)
        })
    }

    fn remove(&self, id: u64) -> Result<()> {
        self.db.transaction(|t| self.remove_from(t, id))
    }

    fn remove_from(&self, t: &Transaction, id: u64) -> Result<()> {
        if let Some(json) = t.get_for_update(&self.users, id.to_be_bytes())? {
            let user = User::from_json(&json)?;
            t.delete(&self.by_email, &user.email)?;
            t.delete(&self.by_town, user.town_key(id)?)?;
            t.delete(&self.users, id.to_be_bytes())?;
        }
        Ok(())
    }

    /// The user with an e-mail address. Both lookups see one moment.
    fn by_email(&self, email: &str) -> Result<Option<User>> {
        let now = self.db.snapshot();
        let Some(id) = now.get(&self.by_email, email)? else {
            return Ok(None);
        };
        let user = now.get(&self.users, id)?;
        user.map(|json| User::from_json(&json)).transpose()
    }

    /// The numbers of the users in a town, in their order. Reads the index only.
    fn in_town(&self, town: &str) -> Result<Vec<u64>> {
        let town = town_start(town)?;
        let keys = self.by_town.prefix(&town).into_keys();
        keys.map(|key| {
            let id = key?[town.len()..].try_into();
            let id = id.map_err(|_| Error::corruption("a key that is not a town's"))?;
            Ok(u64::from_be_bytes(id))
        })
        .collect()
    }
}

pub(crate) fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let users = Users::open(dir.path())?;
    users.set(1, &User::new("ada@example.org", "London"))?;
    users.set(2, &User::new("grace@example.org", "New York"))?;
    users.set(3, &User::new("alan@example.org", "London"))?;
    assert_eq!(users.in_town("London")?, [1, 3]);

    // An address is one user's.
    let taken = users.set(2, &User::new("alan@example.org", "New York"));
    assert_eq!(taken.map_err(|e| e.kind()), Err(ErrorKind::AlreadyExists));
    let grace = users.by_email("grace@example.org")?;
    assert_eq!(grace, Some(User::new("grace@example.org", "New York")));

    // A town's keys are no other town's.
    let refused = users.set(4, &User::new("eve@example.org", "London\0x"));
    let refused = refused.map_err(|e| e.kind());
    assert_eq!(refused, Err(ErrorKind::InvalidArgument));
    assert_eq!(users.by_email("eve@example.org")?, None);

    // The indexes follow a user.
    users.set(1, &User::new("ada@example.org", "Paris"))?;
    assert_eq!(users.in_town("London")?, [3]);
    assert_eq!(users.in_town("Paris")?, [1]);
    users.remove(3)?;
    assert_eq!(users.by_email("alan@example.org")?, None);
    users.db.close()?;
    Ok(())
}
