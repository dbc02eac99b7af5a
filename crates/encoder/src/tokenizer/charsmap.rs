//! The character map of SentencePiece normalizers: a trie of spellings, and their replacements.
//!
//! The `tokenizers` crate indexes the map by the bytes of a text without checks: a damaged map panics at the first text that reaches the
//! damage. [`check`] walks every path that a text can take.
//!
//! Format: the length of the trie in bytes, its units (32-bit, little endian), and the replacements, each ended by a zero byte. Source:
//! Darts-clone, `DoubleArrayUnit`.

/// More bytes for one character are refused: the longest replacement of Unicode's NFKC has 33.
const REPLACEMENT_BYTES_MAX: usize = 64;

/// Bytes of the length.
const LENGTH_BYTES: usize = 4;

/// Checks that no text reaches a unit or a replacement outside of `map`.
///
/// # Errors
/// The defect.
pub(super) fn check(map: &[u8]) -> Result<(), String> {
    let (length, rest) = map.split_first_chunk::<LENGTH_BYTES>().ok_or("it has no length")?;
    let length = u32::from_le_bytes(*length) as usize;
    if length < size_of::<u32>() || length > rest.len() {
        return Err(format!("its trie has {length} bytes of {}", rest.len()));
    }
    let (trie, replacements) = rest.split_at(length);
    let units: Vec<Unit> =
        trie.as_chunks::<4>().0.iter().map(|bytes| Unit(u32::from_le_bytes(*bytes) as usize)).collect();
    let replacements =
        std::str::from_utf8(replacements).map_err(|_| "its replacements are not UTF-8".to_owned())?;
    walk(&units, replacements)
}

/// Visits every unit that the bytes of a text can reach.
fn walk(units: &[Unit], replacements: &str) -> Result<(), String> {
    let outside = || "a character leads outside of its trie".to_owned();
    let mut is_visited = vec![false; units.len()];
    let mut pending = vec![units[0].offset()];
    while let Some(node) = pending.pop() {
        match is_visited.get_mut(node) {
            None => return Err(outside()),
            Some(true) => continue,
            Some(unvisited) => *unvisited = true,
        }
        for byte in 1..=usize::from(u8::MAX) {
            let unit = units.get(node ^ byte).ok_or_else(outside)?;
            if unit.label() != byte {
                continue;
            }
            let child = (node ^ byte) ^ unit.offset();
            let leaf = units.get(child).ok_or_else(outside)?;
            if unit.has_leaf() {
                check_replacement(replacements, leaf.value())?;
            }
            pending.push(child);
        }
    }
    Ok(())
}

fn check_replacement(replacements: &str, start: usize) -> Result<(), String> {
    let rest = replacements.get(start..).ok_or("a replacement starts outside of its text")?;
    match rest.find('\0').unwrap_or(rest.len()) {
        0..=REPLACEMENT_BYTES_MAX => Ok(()),
        bytes => {
            Err(format!("a replacement has {bytes} bytes; the limit of Weir is {REPLACEMENT_BYTES_MAX}"))
        }
    }
}

/// A node of the trie.
struct Unit(usize);

impl Unit {
    fn has_leaf(&self) -> bool {
        self.0 >> 8 & 1 == 1
    }

    fn value(&self) -> usize {
        self.0 & ((1 << 31) - 1)
    }

    /// A byte, or a number above all bytes for a leaf.
    fn label(&self) -> usize {
        self.0 & (1 << 31 | 0xff)
    }

    fn offset(&self) -> usize {
        self.0 >> 10 << ((self.0 & 1 << 9) >> 6)
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    /// A map of `units` units, zero but for `set`, with the replacements `text`.
    fn map(units: usize, set: &[(usize, u32)], text: &str) -> Vec<u8> {
        let mut trie = vec![0u32; units];
        set.iter().for_each(|(at, unit)| trie[*at] = *unit);
        let length = (units * 4) as u32;
        let trie = trie.iter().flat_map(|unit| unit.to_le_bytes());
        length.to_le_bytes().into_iter().chain(trie).chain(text.bytes()).collect()
    }

    #[test]
    fn a_damaged_map_is_refused_with_its_defect() {
        let seen = |map: &[u8]| check(map).err().unwrap_or_default();
        // the root's offset is 256; `a` leads by an offset of 1 to a leaf with the place of its replacement
        let a = 256 ^ 0x61;
        let unit = 1 << 10 | 1 << 8 | 0x61;
        let with_value =
            |value: u32, text: &str| map(512, &[(0, 256 << 10), (a, unit), (a ^ 1, value)], text);
        assert_eq!(check(&with_value(0, "b\0")), Ok(()));
        assert_eq!(seen(&with_value(9, "b\0")), "a replacement starts outside of its text");
        assert_eq!(seen(&with_value(1, "\u{e9}\0")), "a replacement starts outside of its text");
        assert!(seen(&with_value(0, &"b".repeat(65))).starts_with("a replacement has 65 bytes"));
        let far = map(512, &[(0, 256 << 10), (a, 600 << 10 | 0x61)], "");
        assert_eq!(seen(&far), "a character leads outside of its trie");
        assert_eq!(seen(&map(1, &[], "")), "a character leads outside of its trie");
        assert_eq!(seen(&[0xff, 0xff, 0xff, 0xff, 0]), "its trie has 4294967295 bytes of 1");
        assert_eq!(seen(&[0, 0, 0]), "it has no length");
        // a cycle ends
        let cycle = map(512, &[(0, 256 << 10), (a, 0x61 << 10 | 0x61)], "");
        assert_eq!(check(&cycle), Ok(()));
    }
}
