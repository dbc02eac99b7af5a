//! Notifications of changes in the store, to its handles in this process and in others.

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::CollectionId;

/// Changes that a slow receiver may be behind; beyond, it receives [`Change::Unknown`].
const CHANGES_MAX: usize = 256;

/// A change that was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A collection was created, changed or deleted.
    Collections,
    /// A collection may have new operations.
    Operations(CollectionId),
    /// An API key was added, changed or revoked.
    Keys,
    /// Anything may have changed: changes were missed. Sent every second while the database sends none.
    Unknown,
}

impl Change {
    /// As sent to other processes.
    pub(crate) fn to_text(self) -> String {
        match self {
            Change::Collections => "collections".to_owned(),
            Change::Operations(id) => format!("operations {id}"),
            Change::Keys => "keys".to_owned(),
            Change::Unknown => "unknown".to_owned(),
        }
    }

    /// Reads [`Change::to_text`]; what a newer version says is [`Change::Unknown`].
    pub(crate) fn from_text(text: &str) -> Change {
        let id = text.strip_prefix("operations ").and_then(|id| id.parse().ok());
        match (text, id) {
            (_, Some(id)) => Change::Operations(CollectionId(id)),
            ("collections", None) => Change::Collections,
            ("keys", None) => Change::Keys,
            (_, None) => Change::Unknown,
        }
    }
}

/// The changes from [`Store::changes`](crate::Store::changes) on.
#[derive(Debug)]
pub struct Changes(broadcast::Receiver<Change>);

impl Changes {
    /// Waits for the next change; `None` after the store was closed. A call that is dropped misses none.
    pub async fn next(&mut self) -> Option<Change> {
        match self.0.recv().await {
            Ok(change) => Some(change),
            Err(RecvError::Lagged(_)) => Some(Change::Unknown),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next change, if it was received already.
    pub fn try_next(&mut self) -> Option<Change> {
        match self.0.try_recv() {
            Ok(change) => Some(change),
            Err(TryRecvError::Lagged(_)) => Some(Change::Unknown),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

/// Tells changes to the receivers of this process.
#[derive(Debug, Clone)]
pub(crate) struct Announcer(broadcast::Sender<Change>);

impl Announcer {
    pub(crate) fn new() -> Announcer {
        Announcer(broadcast::channel(CHANGES_MAX).0)
    }

    pub(crate) fn tell(&self, change: Change) {
        // nobody has to listen
        let _ = self.0.send(change);
    }

    pub(crate) fn changes(&self) -> Changes {
        Changes(self.0.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_as_it_was_written() {
        let changes =
            [Change::Collections, Change::Operations(CollectionId(7)), Change::Keys, Change::Unknown];
        for change in changes {
            assert_eq!(Change::from_text(&change.to_text()), change);
        }
        assert_eq!(Change::from_text("operations of a newer version"), Change::Unknown);
    }
}
