//! Identity shared by all gateways of one service, and the data directory that belongs to each service.
//!
//! A data directory beside a PostgreSQL database has the id of the service in a file: a gateway whose settings name another database, or none,
//! by mistake is refused at its start.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use crate::{Error, Result};

/// The identity that all gateways over one store share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Identifies the store and its copies: 32 hexadecimal digits.
    pub id: String,
    /// The key of cursors.
    pub cursor_key: [u8; 32],
}

impl Service {
    /// A new one.
    pub(crate) fn random() -> Service {
        let id: [u8; 16] = rand::random();
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        Service { id, cursor_key: rand::random() }
    }
}

/// Has the id of the service to which a data directory belongs, if its store is not in the directory.
const FILE: &str = "service.id";

/// Refuses to open a store in a data directory whose store is elsewhere.
pub(crate) fn check_is_own(folder: &Path) -> Result<()> {
    match read(folder)? {
        None => Ok(()),
        Some(id) => Err(Error::OtherService(format!(
            "the data directory `{}` belongs to the service {id}, whose store is a PostgreSQL database; name it in `store.url`, or choose \
             another --data-dir",
            folder.display()
        ))),
    }
}

/// Refuses a data directory of another service than that of the database, `found`. `own` is there if the directory has a store: the service of this
/// store, if it is known.
pub(crate) fn check(folder: &Path, found: Option<&Service>, own: Option<Option<Service>>) -> Result<()> {
    let (shown, found) = (folder.display(), found.map(|service| service.id.as_str()));
    match read(folder)? {
        Some(id) if found == Some(&id) => Ok(()),
        Some(id) => {
            let other = found.map_or("no service".to_owned(), |found| format!("the service {found}"));
            Err(Error::OtherService(format!(
                "the data directory `{shown}` belongs to the service {id}, and the database of `store.url` to {other}; name the database of \
                 this service, or choose another --data-dir"
            )))
        }
        None => match own {
            Some(own) if own.is_none() || own.as_ref().map(|own| own.id.as_str()) != found => {
                Err(Error::OtherService(format!(
                    "the data directory `{shown}` has a store of its own, which the database of `store.url` does not have; copy it by `weir \
                     store copy` into an empty database, or choose another --data-dir"
                )))
            }
            Some(_) | None => Ok(()),
        },
    }
}

/// Notes that a data directory belongs to a service.
pub(crate) fn bind(folder: &Path, service: &Service) -> Result<()> {
    match read(folder)? {
        Some(_) => Ok(()),
        None => write(folder, &service.id),
    }
}

fn read(folder: &Path) -> Result<Option<String>> {
    let path = folder.join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::from_io(&path, error)),
    }
}

fn write(folder: &Path, id: &str) -> Result<()> {
    let (path, unfinished) = (folder.join(FILE), folder.join(format!("{FILE}.new")));
    let written = File::create(&unfinished).and_then(|mut file| {
        writeln!(file, "{id}")?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| std::fs::rename(&unfinished, &path));
    renamed.map_err(|error| Error::from_io(&path, error))
}
