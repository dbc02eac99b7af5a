//! Cursors: where the next page begins, signed, so that only cursors of this gateway are accepted, and encrypted, because the index version
//! counts the changes of all documents, hidden ones included.
//!
//! A cursor names the collection, its generation and the request that it belongs to, the index version of the first page, and the offset.
//! It is serialised with postcard, signed and encrypted by a [`Seal`], and encoded as base64url. The key is a file in the data directory, or in the store that
//! several gateways share: cursors survive a restart, and a cursor of another service is refused.

#![forbid(unsafe_code)]

mod seal;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use weir_api::{DegradedReason, ErrorCode, Invalid};
use weir_store::{CollectionId, GenerationId};

pub use seal::Seal;

/// The file that holds the key, in the data directory.
const KEY_FILE: &str = "cursor.key";
const KEY_BYTES: usize = 32;
/// Version of the layout of [`CursorContent`], and of what a [`RequestHash`] is the hash of.
const FORMAT: u8 = 4;
/// Longest accepted text; a URI has no room for more, and 256 re-scored hits take less.
const TEXT_BYTES_MAX: usize = 1 << 16;

/// The search that a cursor belongs to; it is refused for any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The collection.
    pub collection: CollectionId,
    /// Its generation of embeddings.
    pub generation: GenerationId,
    /// The request without its cursor, and the settings that its ranking depends on.
    pub request: RequestHash,
}

/// A hash of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestHash([u8; 16]);

/// A position in the pages of a search or a filtered list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cursor {
    /// The applied sequence of the index at which the first page was read.
    pub applied_seq: u64,
    /// Results before the page.
    pub offset: u64,
    /// Parts that the ranking of the first page did without.
    pub degraded: Vec<DegradedReason>,
    /// Re-scored results from here on, in their order, so that pages do not depend on re-scoring again. The order of the index follows.
    pub order: Vec<Placed>,
}

/// A re-scored result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// Its position in the order of the index, from 0.
    pub place: u8,
    /// Its final score.
    pub score: f32,
    /// The reranker's score.
    pub rerank_score: Option<f32>,
    /// The MaxSim score.
    pub late_interaction: Option<f32>,
}

/// The signed and encrypted content.
#[derive(Serialize, Deserialize)]
struct CursorContent {
    format: u8,
    binding: Binding,
    position: Position,
}

#[derive(Serialize, Deserialize)]
enum Position {
    Page(Cursor),
    /// In the order of ids: after this one.
    AfterId(String),
}

/// The key that signs, encrypts and verifies cursors.
pub struct CursorKey(Seal);

impl RequestHash {
    /// The hash of these parts, in this order.
    pub fn of(parts: &[&[u8]]) -> RequestHash {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut hash = [0; 16];
        hasher.finalize_xof().fill(&mut hash);
        RequestHash(hash)
    }
}

impl CursorKey {
    /// The key that all gateways over one store have.
    pub fn shared(key: [u8; KEY_BYTES]) -> CursorKey {
        CursorKey(Seal::new(key))
    }

    /// The key in `folder`, which is created if it is missing. If it can be neither read nor written, a key of this process: cursors are
    /// then invalid after a restart.
    pub fn of_folder(folder: &Path) -> CursorKey {
        let key = read_or_create(&folder.join(KEY_FILE)).unwrap_or_else(|error| {
            tracing::warn!(%error, "`{KEY_FILE}` in the data directory is not usable: cursors become invalid at the next start");
            rand::random()
        });
        CursorKey(Seal::new(key))
    }

    /// The text of a cursor.
    pub fn sign(&self, binding: &Binding, cursor: &Cursor) -> String {
        self.sign_position(binding, Position::Page(cursor.clone()))
    }

    /// The text of a cursor that continues after the document `id`, in the order of ids.
    pub fn sign_after(&self, binding: &Binding, id: &str) -> String {
        self.sign_position(binding, Position::AfterId(id.to_owned()))
    }

    /// Reads a cursor for `binding`.
    ///
    /// # Errors
    /// `invalid_cursor`, with what it belongs to instead; `cursor_expired` when its index was made again.
    pub fn verify(&self, binding: &Binding, text: &str) -> Result<Cursor, Invalid> {
        match self.verify_position(binding, text)? {
            Position::Page(cursor) => Ok(cursor),
            Position::AfterId(_) => Err(not_ours()),
        }
    }

    /// Reads a cursor of [`CursorKey::sign_after`] for `binding`: the id.
    pub fn verify_after(&self, binding: &Binding, text: &str) -> Result<String, Invalid> {
        match self.verify_position(binding, text)? {
            Position::AfterId(id) => Ok(id),
            Position::Page(_) => Err(not_ours()),
        }
    }

    fn sign_position(&self, binding: &Binding, position: Position) -> String {
        let content = CursorContent { format: FORMAT, binding: *binding, position };
        // serialising into memory does not fail
        URL_SAFE_NO_PAD.encode(self.0.seal(&[], &postcard::to_stdvec(&content).unwrap_or_default()))
    }

    fn verify_position(&self, binding: &Binding, text: &str) -> Result<Position, Invalid> {
        let content = self.authenticate(text).ok_or_else(not_ours)?;
        if content.first() != Some(&FORMAT) {
            return Err(refusal("the cursor is of another version of the gateway"));
        }
        let content: CursorContent = postcard::from_bytes(&content).map_err(|_| not_ours())?;
        if content.binding.collection != binding.collection {
            return Err(refusal("the cursor belongs to another collection"));
        }
        if content.binding.request != binding.request {
            return Err(refusal(
                "the cursor belongs to another request: everything but `cursor` must be the same",
            ));
        }
        if content.binding.generation != binding.generation {
            let message = "the index of the collection was made again since the first page";
            return Err(Invalid::at(ErrorCode::CursorExpired, &["cursor"], message));
        }
        Ok(content.position)
    }

    /// The content of a cursor whose tag is right.
    fn authenticate(&self, text: &str) -> Option<Vec<u8>> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        self.0.open(&[], URL_SAFE_NO_PAD.decode(text).ok()?)
    }
}

fn refusal(message: &str) -> Invalid {
    Invalid::at(ErrorCode::InvalidCursor, &["cursor"], message)
}

fn not_ours() -> Invalid {
    refusal("the cursor was not issued by this gateway")
}

fn read_or_create(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    match fs::read(path) {
        Ok(bytes) => match bytes.try_into() {
            Ok(key) => return Ok(key),
            Err(_) => {
                tracing::warn!(path = %path.display(), "the key of cursors is damaged; a new one is created")
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let key: [u8; KEY_BYTES] = rand::random();
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&key)?;
    Ok(key)
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
        Cursor { applied_seq: 7, offset: 20, degraded, order: Vec::new() }
    }

    /// `expected`: the code, and a word of the message.
    fn check(key: &CursorKey, binding: &Binding, text: &str, expected: (ErrorCode, &str)) {
        let refused = key.verify(binding, text).unwrap_err();
        assert!(refused.code == expected.0 && refused.message.contains(expected.1), "{text}: {refused:?}");
    }

    #[test]
    fn a_cursor_is_accepted_for_its_own_request_only() {
        let key = CursorKey::shared([1; 32]);
        let own = binding(1, 2, "a");
        let text = key.sign(&own, &cursor());
        assert_eq!(key.verify(&own, &text), Ok(cursor()));
        let placed = |place| Placed {
            place,
            score: 0.5,
            rerank_score: (place > 3).then_some(-1.0),
            late_interaction: (place < 99).then_some(0.25),
        };
        let whole = Cursor { degraded: Vec::new(), order: (0..=255).map(placed).collect(), ..cursor() };
        assert_eq!(key.verify(&own, &key.sign(&own, &whole)), Ok(whole));
        check(&key, &binding(3, 2, "a"), &text, (ErrorCode::InvalidCursor, "another collection"));
        check(&key, &binding(1, 2, "b"), &text, (ErrorCode::InvalidCursor, "another request"));
        check(&key, &binding(1, 3, "a"), &text, (ErrorCode::CursorExpired, "made again"));
        check(
            &CursorKey::shared([2; 32]),
            &own,
            &text,
            (ErrorCode::InvalidCursor, "not issued by this gateway"),
        );
        let after = key.sign_after(&own, "id");
        assert_eq!(key.verify_after(&own, &after), Ok("id".to_owned()));
        check(&key, &own, &after, (ErrorCode::InvalidCursor, "not issued"));
        assert_eq!(key.verify_after(&own, &text).unwrap_err().code, ErrorCode::InvalidCursor);
    }

    #[test]
    fn the_text_of_a_cursor_tells_nothing() {
        let (key, own) = (CursorKey::shared([1; 32]), binding(1, 2, "a"));
        let texts = [key.sign(&own, &cursor()), key.sign(&own, &cursor())];
        assert_ne!(texts[0], texts[1], "an unchanged index is not to be recognised");
        let bytes = texts.map(|text| URL_SAFE_NO_PAD.decode(text).unwrap());
        let content = postcard::to_stdvec(&own.request).unwrap();
        assert!(bytes.iter().all(|bytes| !bytes.windows(content.len()).any(|part| part == content)));
    }

    #[test]
    fn a_cursor_with_any_character_changed_is_refused() {
        let key = CursorKey::shared([1; 32]);
        let own = binding(1, 2, "a");
        let text = key.sign(&own, &cursor());
        for place in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(key.verify(&own, &changed).unwrap_err().code, ErrorCode::InvalidCursor, "{place}");
        }
        let long = text.repeat(1000);
        for other in ["", "a", "====", "\u{0}", &text[1..], &text[..text.len() - 1], &long] {
            assert_eq!(key.verify(&own, other).unwrap_err().code, ErrorCode::InvalidCursor, "{other}");
        }
    }

    /// Like the target in `fuzz/`, for bytes of a fixed seed.
    #[test]
    fn signed_content_of_any_bytes_is_refused_without_a_panic() {
        let key = CursorKey::shared([1; 32]);
        for round in 0..2_000_u32 {
            let mut bytes = vec![0; round as usize % 80];
            blake3::Hasher::new().update(&round.to_le_bytes()).finalize_xof().fill(&mut bytes);
            if let Some(format) = bytes.first_mut().filter(|_| round % 2 == 0) {
                *format = FORMAT;
            }
            assert!(
                key.verify(&binding(1, 2, "a"), &URL_SAFE_NO_PAD.encode(key.0.seal(&[], &bytes))).is_err(),
                "{round}"
            );
        }
    }

    #[test]
    fn the_key_stays_with_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = CursorKey::of_folder(folder.path());
        assert!(CursorKey::of_folder(folder.path()).0 == first.0);
        fs::write(folder.path().join(KEY_FILE), b"short").unwrap();
        let second = CursorKey::of_folder(folder.path());
        assert!(second.0 != first.0);
        assert!(CursorKey::of_folder(folder.path()).0 == second.0);
        assert!(CursorKey::of_folder(&folder.path().join("absent")).0 != second.0);
    }
}
