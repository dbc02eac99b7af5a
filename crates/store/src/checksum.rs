//! One checksum per row, so that a row that changed behind our back is found when it is read.

/// Gathers the fields of a row into a CRC-32 (IEEE). Every field is framed by its length, so that moving a byte
/// from one field to the next changes the sum; the table's name comes first, so that rows of two tables differ.
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

    /// Adds a whole number.
    pub(crate) fn number(mut self, field: u64) -> Checksum {
        self.0.update(&field.to_le_bytes());
        self
    }

    /// Adds a time.
    pub(crate) fn time(self, field: f64) -> Checksum {
        self.number(field.to_bits())
    }

    /// Adds a text that may be absent; absent and empty differ.
    pub(crate) fn optional(self, field: Option<&str>) -> Checksum {
        match field {
            Some(text) => self.number(1).bytes(text),
            None => self.number(0),
        }
    }

    /// The sum.
    pub(crate) fn finish(self) -> u32 {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_and_its_border_counts() {
        let sum = |a: &str, b: &str| Checksum::of("t").bytes(a).bytes(b).finish();
        assert_eq!(sum("ab", "c"), sum("ab", "c"));
        assert_ne!(sum("ab", "c"), sum("a", "bc"));
        assert_ne!(Checksum::of("t").finish(), Checksum::of("u").finish());
        assert_ne!(Checksum::of("t").optional(None).finish(), Checksum::of("t").optional(Some("")).finish());
        assert_ne!(Checksum::of("t").time(0.5).finish(), Checksum::of("t").time(0.25).finish());
    }
}
