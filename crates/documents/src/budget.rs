//! Limits of all readers of one file together.

use std::cell::Cell;

use crate::{Failure, Limits};

/// The remaining work for one file. Readers share it by reference.
pub(crate) struct Budget<'l> {
    /// The limits that the budget started from.
    pub(crate) limits: &'l Limits,
    zip_bytes: Cell<u64>,
    xml_events: Cell<u64>,
    cells: Cell<u64>,
}

impl<'l> Budget<'l> {
    /// All that `limits` allow.
    pub(crate) fn new(limits: &'l Limits) -> Budget<'l> {
        Budget {
            limits,
            zip_bytes: Cell::new(limits.zip_bytes),
            xml_events: Cell::new(limits.xml_events),
            cells: Cell::new(limits.cells),
        }
    }

    /// The unpacked bytes that are left.
    pub(crate) fn zip_bytes(&self) -> u64 {
        self.zip_bytes.get()
    }

    /// Uses unpacked bytes.
    pub(crate) fn take_zip_bytes(&self, bytes: u64) -> Result<(), Failure> {
        take(&self.zip_bytes, bytes, || {
            format!("its parts unpack to more than {} bytes", self.limits.zip_bytes)
        })
    }

    /// Uses one event of an XML part.
    pub(crate) fn take_event(&self) -> Result<(), Failure> {
        take(&self.xml_events, 1, || format!("its XML has more than {} events", self.limits.xml_events))
    }

    /// Uses cells of a sheet.
    pub(crate) fn take_cells(&self, cells: u64) -> Result<(), Failure> {
        take(&self.cells, cells, || format!("its sheets have more than {} cells", self.limits.cells))
    }
}

fn take(left: &Cell<u64>, amount: u64, over: impl FnOnce() -> String) -> Result<(), Failure> {
    let rest = left.get().checked_sub(amount).ok_or_else(|| Failure::FileLimit(over()))?;
    left.set(rest);
    Ok(())
}
