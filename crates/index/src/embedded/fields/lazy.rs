//! Fields that are read when they are needed, so that opening a folder does not wait for them.

use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use weir_mapped::AppendOnlyFile;

use super::Fields;

/// The fields of a snapshot. Whoever needs them first reads them, and others wait for it.
pub(crate) struct LazyFields {
    fields: OnceLock<Fields>,
    /// The file `documents`, until it is read. Its mapping ends then, so that its pages do not count as memory of the process.
    unread: Mutex<Option<AppendOnlyFile>>,
}

impl LazyFields {
    /// Fields that were read already.
    pub(crate) fn of(fields: Fields) -> LazyFields {
        LazyFields { fields: fields.into(), unread: Mutex::default() }
    }

    /// The fields of a file `documents` whose records are sound, which a thread begins to read.
    pub(crate) fn read_in_background(documents: AppendOnlyFile) -> Arc<LazyFields> {
        let lazy = Arc::new(LazyFields { fields: OnceLock::new(), unread: Mutex::new(Some(documents)) });
        let reading = Arc::clone(&lazy);
        // if the system refuses a thread, the first that needs the fields reads them
        let _ = thread::Builder::new().name("fields".to_owned()).spawn(move || {
            let _: &Fields = &reading;
        });
        lazy
    }
}

impl Deref for LazyFields {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        self.fields.get_or_init(|| {
            let mut fields = Fields::default();
            if let Some(documents) = self.unread.lock().unwrap_or_else(PoisonError::into_inner).take() {
                // the caller of `read_in_background` has read all records, so this succeeds
                let _ = fields.extend(&documents);
            }
            fields
        })
    }
}
