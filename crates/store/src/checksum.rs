//! One checksum per row, so that a row that was changed from outside, or by a faulty disk, is detected when it is read.

/// Computes a CRC-32 (IEEE) over the fields of a row. Each text or blob is preceded by its length, so that moving a byte from one field
/// to the next changes the checksum. The table's name is the first field, so that equal rows of two tables have different checksums.
pub(crate) struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// Starts the checksum of a row of `table`.
    pub(crate) fn of(table: &str) -> Checksum {
        Checksum(crc32fast::Hasher::new()).bytes(table.as_bytes())
    }

    /// Adds text or bytes.
    pub(crate) fn bytes(mut self, field: impl AsRef<[u8]>) -> Checksum {
        let field = field.as_ref();
        self.0.update(&(field.len() as u64).to_le_bytes());
        self.0.update(field);
        self
    }

    /// Adds an integer.
    pub(crate) fn number(mut self, field: u64) -> Checksum {
        self.0.update(&field.to_le_bytes());
        self
    }

    /// Adds a timestamp.
    pub(crate) fn time(self, field: f64) -> Checksum {
        self.number(field.to_bits())
    }

    /// Adds a text that may be absent. Absent and empty give different checksums.
    pub(crate) fn optional(self, field: Option<&str>) -> Checksum {
        match field {
            Some(text) => self.number(1).bytes(text),
            None => self.number(0),
        }
    }

    /// The checksum of all fields added.
    pub(crate) fn finish(self) -> u32 {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_content_boundaries_and_table_change_the_checksum() {
        let sum = |a: &str, b: &str| Checksum::of("t").bytes(a).bytes(b).finish();
        assert_eq!(sum("ab", "c"), sum("ab", "c"));
        assert_ne!(sum("ab", "c"), sum("a", "bc"));
        assert_ne!(Checksum::of("t").finish(), Checksum::of("u").finish());
        assert_ne!(Checksum::of("t").optional(None).finish(), Checksum::of("t").optional(Some("")).finish());
        assert_ne!(Checksum::of("t").time(0.5).finish(), Checksum::of("t").time(0.25).finish());
    }
}
