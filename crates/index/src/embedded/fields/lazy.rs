//! Fields that are read when they are needed, so that opening a folder does not wait for them.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use weir_mapped::AppendOnlyFile;

use super::Fields;

/// A shorter file is read at once: starting a thread takes longer.
const READ_AT_ONCE_BYTES: usize = 64 << 10;

/// The fields of a snapshot. Whoever needs them first reads them, and others wait for it.
pub(crate) struct LazyFields {
    fields: OnceLock<Fields>,
    /// The file `documents`, until it is read. Its mapping ends then, so that its pages do not count as memory of the process.
    unread: Mutex<Option<AppendOnlyFile>>,
    /// Whether the file was truncated while it was read.
    is_damaged: AtomicBool,
}

impl LazyFields {
    /// Fields that were read already.
    pub(crate) fn of(fields: Fields) -> LazyFields {
        LazyFields { fields: fields.into(), unread: Mutex::default(), is_damaged: AtomicBool::new(false) }
    }

    /// Whether the fields are not those of the file.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Acquire)
    }

    /// The fields of a file `documents` whose records are sound, which a thread begins to read.
    pub(crate) fn read_in_background(documents: AppendOnlyFile) -> Arc<LazyFields> {
        let is_short = documents.len() <= READ_AT_ONCE_BYTES;
        let unread = Mutex::new(Some(documents));
        let is_damaged = AtomicBool::new(false);
        let lazy = Arc::new(LazyFields { fields: OnceLock::new(), unread, is_damaged });
        if is_short {
            let _: &Fields = &lazy;
            return lazy;
        }
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
                self.is_damaged.store(documents.check().is_err(), Ordering::Release);
            }
            fields
        })
    }
}
