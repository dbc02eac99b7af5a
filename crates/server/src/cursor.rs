//! Cursors: where the next page begins, sealed so that only what this gateway made is accepted.
//!
//! A cursor says at which operation of which collection's index the first page was read, how far the pages have come, in which order
//! the results follow that were scored once more, and for which request. The key lies in the data directory, beside what cursors lead into: a cursor outlives a restart, and
//! one of another gateway is refused.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use weir_api::{DegradedReason, ErrorCode, Invalid, RERANK_TOP_N_MAX};
use weir_store::{CollectionId, GenerationId};

/// The file that holds the key, in the data directory.
const KEY_FILE: &str = "cursor.key";
const KEY_BYTES: usize = 32;
/// Another layout has another number.
const FORMAT: u8 = 2;
/// Format, flags, four numbers, the request's hash; results behind it.
const HEAD_BYTES: usize = 3 + 4 * 8 + HASH_BYTES;
const HASH_BYTES: usize = 16;
/// A place and three floats.
const PLACED_BYTES: usize = 1 + 3 * 4;
const SEAL_BYTES: usize = 32;
/// No URI has room for a longer one, whatever the limit of ids.
const AFTER_TEXT_BYTES_MAX: usize = 1 << 16;
/// The longest that there are, but for those that hold an id.
const BYTES_MAX: usize = HEAD_BYTES + RERANK_TOP_N_MAX as usize * PLACED_BYTES + SEAL_BYTES;
// a flag for each reason, and a byte for each place
const _: () = assert!(DegradedReason::ALL.len() <= 16 && RERANK_TOP_N_MAX <= 256);

/// What a cursor is bound to: it leads nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) collection: CollectionId,
    pub(super) generation: GenerationId,
    /// The request without its cursor, and the settings that its ranking depends on.
    pub(super) request: RequestHash,
}

/// A hash of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestHash([u8; HASH_BYTES]);

/// A place in the pages of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cursor {
    /// The operation at which the first page was read.
    pub(super) reached: u64,
    /// Results that lie before the page.
    pub(super) offset: u64,
    /// What the first page was ranked without, although it was asked for.
    pub(super) degraded: Vec<DegradedReason>,
    /// The results from here on that were scored once more, in the order that came out, so that no page depends on how another scoring
    /// goes. Where it ends, the order of the index goes on.
    pub(super) order: Vec<Placed>,
}

/// A result that was scored once more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Placed {
    /// Its place in the order of the index, from 0 and below 256.
    pub(super) place: u8,
    pub(super) score: f32,
    pub(super) rerank_score: Option<f32>,
    pub(super) late_interaction: Option<f32>,
}

impl Placed {
    fn to_bytes(self) -> [u8; PLACED_BYTES] {
        let mut bytes = [0; PLACED_BYTES];
        bytes[0] = self.place;
        bytes[1..5].copy_from_slice(&self.score.to_le_bytes());
        bytes[5..9].copy_from_slice(&self.rerank_score.unwrap_or(f32::NAN).to_le_bytes());
        bytes[9..].copy_from_slice(&self.late_interaction.unwrap_or(f32::NAN).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; PLACED_BYTES]) -> Placed {
        let float = |at: usize| f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let known = |float: f32| (!float.is_nan()).then_some(float);
        Placed {
            place: bytes[0],
            score: float(1),
            rerank_score: known(float(5)),
            late_interaction: known(float(9)),
        }
    }
}

/// Seals cursors and opens them.
pub(super) struct Seal([u8; KEY_BYTES]);

impl RequestHash {
    /// The hash of these parts, in this order.
    pub(super) fn of(parts: &[&[u8]]) -> RequestHash {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(&hasher.finalize().as_bytes()[..HASH_BYTES]);
        RequestHash(hash)
    }
}

impl Seal {
    /// With the key of `folder`, which is made when it isn't there. When it can be neither read nor written, with a key
    /// of this process's own: cursors then end with it.
    pub(super) fn of_folder(folder: &Path) -> Seal {
        let key = read_or_make(&folder.join(KEY_FILE)).unwrap_or_else(|error| {
            tracing::warn!(%error, "no `{KEY_FILE}` in the data directory: cursors end with this process");
            new_key()
        });
        Seal(key)
    }

    /// The text of a cursor.
    pub(super) fn close(&self, binding: &Binding, cursor: &Cursor) -> String {
        let mut bytes = binding.head(cursor);
        cursor.order.iter().for_each(|placed| bytes.extend(placed.to_bytes()));
        self.seal(bytes)
    }

    /// The text of a cursor that leads behind a document, in the order of ids.
    pub(super) fn close_after(&self, binding: &Binding, id: &str) -> String {
        let start = Cursor { reached: 0, offset: 0, degraded: Vec::new(), order: Vec::new() };
        let mut bytes = binding.head(&start);
        bytes.extend(id.as_bytes());
        self.seal(bytes)
    }

    /// Reads a cursor that must be bound to this.
    ///
    /// # Errors
    /// `invalid_cursor`, saying what it is bound to instead; `cursor_expired` when the index was made anew.
    pub(super) fn open(&self, binding: &Binding, text: &str) -> Result<Cursor, Invalid> {
        let bytes = self.unseal(text, 4 * BYTES_MAX.div_ceil(3)).ok_or_else(not_ours)?;
        binding.read(&bytes)
    }

    /// Reads a cursor of [`Seal::close_after`] that must be bound to this: the id.
    ///
    /// # Errors
    /// As [`Seal::open`].
    pub(super) fn open_after(&self, binding: &Binding, text: &str) -> Result<String, Invalid> {
        let bytes = self.unseal(text, AFTER_TEXT_BYTES_MAX).ok_or_else(not_ours)?;
        let (_, id) = binding.check(&bytes)?;
        String::from_utf8(id.to_vec()).map_err(|_| not_ours())
    }

    fn seal(&self, mut bytes: Vec<u8>) -> String {
        let seal = blake3::keyed_hash(&self.0, &bytes);
        bytes.extend(seal.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The content of a cursor with a good seal: a head, and results or an id behind it.
    fn unseal(&self, text: &str, text_bytes_max: usize) -> Option<Vec<u8>> {
        // longer ones are not even decoded
        if text.len() > text_bytes_max {
            return None;
        }
        let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let content = bytes.len().checked_sub(SEAL_BYTES).filter(|content| *content >= HEAD_BYTES)?;
        let seal: [u8; SEAL_BYTES] = bytes[content..].try_into().ok()?;
        bytes.truncate(content);
        // compares in constant time
        (blake3::keyed_hash(&self.0, &bytes) == seal).then_some(bytes)
    }
}

impl Binding {
    /// Reads the content of a cursor that must be bound to this.
    pub(super) fn read(&self, content: &[u8]) -> Result<Cursor, Invalid> {
        let (head, order) = self.check(content)?;
        let flags = u16::from_le_bytes([head[1], head[2]]);
        let (order, _) = order.as_chunks();
        let order = order.iter().map(Placed::from_bytes).collect();
        Ok(Cursor { reached: number(head, 2), offset: number(head, 3), degraded: reasons(flags), order })
    }

    /// The head of a content that must be bound to this, and what stands behind it.
    fn check<'c>(&self, content: &'c [u8]) -> Result<(&'c [u8; HEAD_BYTES], &'c [u8]), Invalid> {
        let (head, rest) = content
            .split_first_chunk::<HEAD_BYTES>()
            .filter(|(head, _)| head[0] == FORMAT)
            .ok_or_else(|| refusal("the cursor is of another version of the gateway"))?;
        if number(head, 0) != self.collection.0 as u64 {
            return Err(refusal("the cursor belongs to another collection"));
        }
        if head[3 + 4 * 8..] != self.request.0 {
            return Err(refusal(
                "the cursor belongs to another request: all but `cursor` has to be the same",
            ));
        }
        if number(head, 1) != self.generation.0 as u64 {
            let message = "the collection was embedded anew since the first page";
            return Err(Invalid::at(ErrorCode::CursorExpired, &["cursor"], message));
        }
        Ok((head, rest))
    }

    fn head(&self, cursor: &Cursor) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + cursor.order.len() * PLACED_BYTES + SEAL_BYTES);
        bytes.push(FORMAT);
        bytes.extend(flags(&cursor.degraded).to_le_bytes());
        bytes.extend(self.collection.0.to_le_bytes());
        bytes.extend(self.generation.0.to_le_bytes());
        bytes.extend(cursor.reached.to_le_bytes());
        bytes.extend(cursor.offset.to_le_bytes());
        bytes.extend(self.request.0);
        bytes
    }
}

fn refusal(message: &str) -> Invalid {
    Invalid::at(ErrorCode::InvalidCursor, &["cursor"], message)
}

fn not_ours() -> Invalid {
    refusal("the cursor is not one that this gateway made")
}

/// One of the four numbers of a head.
fn number(head: &[u8; HEAD_BYTES], place: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&head[3 + 8 * place..11 + 8 * place]);
    u64::from_le_bytes(eight)
}

/// A flag for each reason, by its place among all.
fn flags(reasons: &[DegradedReason]) -> u16 {
    let all = DegradedReason::ALL.iter().enumerate();
    all.filter(|(_, reason)| reasons.contains(reason)).fold(0, |flags, (place, _)| flags | 1 << place)
}

fn reasons(flags: u16) -> Vec<DegradedReason> {
    let all = DegradedReason::ALL.iter().enumerate();
    all.filter(|(place, _)| flags & 1 << place != 0).map(|(_, reason)| *reason).collect()
}

fn read_or_make(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    match fs::read(path) {
        Ok(bytes) => match bytes.try_into() {
            Ok(key) => return Ok(key),
            Err(_) => tracing::warn!(path = %path.display(), "the key of cursors is damaged and made anew"),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let key = new_key();
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&key)?;
    Ok(key)
}

fn new_key() -> [u8; KEY_BYTES] {
    let (one, two) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    *blake3::Hasher::new().update(one.as_bytes()).update(two.as_bytes()).finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(collection: i64, generation: i64, request: &str) -> Binding {
        Binding {
            collection: CollectionId(collection),
            generation: GenerationId(generation),
            request: RequestHash::of(&[request.as_bytes()]),
        }
    }

    fn cursor() -> Cursor {
        let degraded = vec![DegradedReason::EmbeddingFailed, DegradedReason::RerankDeadline];
        Cursor { reached: 7, offset: 20, degraded, order: Vec::new() }
    }

    /// `expected`: the code, and a word of the message.
    fn check(seal: &Seal, binding: &Binding, text: &str, expected: (ErrorCode, &str)) {
        let refused = seal.open(binding, text).unwrap_err();
        assert!(refused.code == expected.0 && refused.message.contains(expected.1), "{text}: {refused:?}");
    }

    #[test]
    fn a_cursor_leads_where_it_was_made_for_and_nowhere_else() {
        let seal = Seal([1; 32]);
        let made_for = binding(1, 2, "a");
        let text = seal.close(&made_for, &cursor());
        assert_eq!(seal.open(&made_for, &text), Ok(cursor()));
        let placed = |place| Placed {
            place,
            score: 0.5,
            rerank_score: (place > 3).then_some(-1.0),
            late_interaction: (place < 99).then_some(0.25),
        };
        let whole = Cursor { degraded: Vec::new(), order: (0..100).map(placed).collect(), ..cursor() };
        assert_eq!(seal.open(&made_for, &seal.close(&made_for, &whole)), Ok(whole));
        check(&seal, &binding(3, 2, "a"), &text, (ErrorCode::InvalidCursor, "another collection"));
        check(&seal, &binding(1, 2, "b"), &text, (ErrorCode::InvalidCursor, "another request"));
        check(&seal, &binding(1, 3, "a"), &text, (ErrorCode::CursorExpired, "embedded anew"));
        check(&Seal([2; 32]), &made_for, &text, (ErrorCode::InvalidCursor, "not one that this gateway made"));
    }

    #[test]
    fn a_cursor_with_any_character_changed_is_refused() {
        let seal = Seal([1; 32]);
        let made_for = binding(1, 2, "a");
        let text = seal.close(&made_for, &cursor());
        for place in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(seal.open(&made_for, &changed).unwrap_err().code, ErrorCode::InvalidCursor, "{place}");
        }
        let long = text.repeat(1000);
        for other in ["", "a", "====", "\u{0}", &text[1..], &text[..text.len() - 1], &long] {
            assert_eq!(seal.open(&made_for, other).unwrap_err().code, ErrorCode::InvalidCursor, "{other}");
        }
    }

    /// As the target in `fuzz/`, over a few bytes of a fixed seed.
    #[test]
    fn every_cursor_is_read_back_and_no_content_panics() {
        let seal = Seal([1; 32]);
        let mut read = [0; 3];
        for round in 0..2_000_u32 {
            let mut bytes = [0; 32 + HEAD_BYTES + 40];
            blake3::Hasher::new().update(&round.to_le_bytes()).finalize_xof().fill(&mut bytes);
            let number =
                |place: usize| u64::from_le_bytes(bytes[8 * place..8 * place + 8].try_into().unwrap());
            let made_for = binding(number(0).cast_signed(), number(1).cast_signed(), &round.to_string());
            let degraded = DegradedReason::ALL.get(round as usize % 12).copied().into_iter().collect();
            let made = Cursor { reached: number(2), offset: number(3), degraded, order: Vec::new() };
            assert_eq!(seal.open(&made_for, &seal.close(&made_for, &made)), Ok(made));
            // a good seal around anything: what it is bound to as it should be or not, the rest left to chance
            let mut content = bytes;
            let content = &mut content[32..32 + HEAD_BYTES + round as usize % 40];
            content[0] = FORMAT;
            content[3..11].copy_from_slice(&bytes[..8]);
            if round % 4 < 3 {
                content[35..HEAD_BYTES].copy_from_slice(&made_for.request.0);
            }
            if round % 2 == 0 {
                content[11..19].copy_from_slice(&bytes[8..16]);
            }
            match made_for.read(content) {
                Ok(cursor) => {
                    let numbers = [cursor.reached.to_le_bytes(), cursor.offset.to_le_bytes()].concat();
                    assert_eq!(numbers, content[19..35]);
                    assert_eq!(cursor.order.len(), round as usize % 40 / PLACED_BYTES);
                    read[0] += 1;
                }
                Err(error) if error.code == ErrorCode::CursorExpired => read[1] += 1,
                Err(error) => read[2] += usize::from(error.message.contains("another request")),
            }
        }
        for short in 0..HEAD_BYTES {
            assert!(binding(1, 2, "a").read(&[FORMAT; HEAD_BYTES][..short]).is_err());
        }
        assert_eq!(read, [1_000, 500, 500]);
    }

    #[test]
    fn the_key_stays_with_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = Seal::of_folder(folder.path());
        assert_eq!(Seal::of_folder(folder.path()).0, first.0);
        fs::write(folder.path().join(KEY_FILE), b"short").unwrap();
        let second = Seal::of_folder(folder.path());
        assert_ne!(second.0, first.0);
        assert_eq!(Seal::of_folder(folder.path()).0, second.0);
        assert_ne!(Seal::of_folder(&folder.path().join("absent")).0, second.0);
    }
}
