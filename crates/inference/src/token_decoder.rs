//! Texts of token ids that a client has made by a tokenizer of OpenAI's.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Largest vocabulary that is read.
const TOKENS_MAX: usize = 1 << 20;
/// Longest token that is read.
const TOKEN_BYTES_MAX: usize = 1 << 10;

/// The bytes of each token of a vocabulary in the form of `tiktoken`: a line per token with its bytes in base64 and its id.
pub struct TokenDecoder {
    name: String,
    /// By id; empty for an id without a token.
    tokens: Vec<Box<[u8]>>,
}

impl TokenDecoder {
    /// Reads a file such as `cl100k_base.tiktoken`.
    ///
    /// # Errors
    /// A message about a file that can't be read or has another form.
    pub(super) fn load(path: &Path) -> Result<TokenDecoder, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("can't read {shown}: {error}"))?;
        let mut tokens: Vec<Box<[u8]>> = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let (id, bytes) = token(line).ok_or_else(|| {
                format!(
                    "line {} of {shown} is not a token in base64 and its id, as in cl100k_base.tiktoken",
                    number + 1
                )
            })?;
            if tokens.len() <= id {
                tokens.resize(id + 1, Box::default());
            }
            tokens[id] = bytes.into();
        }
        if tokens.is_empty() {
            return Err(format!("{shown} has no tokens"));
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(TokenDecoder { name, tokens })
    }

    /// The text of token ids. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// A message that names an id without a token.
    pub fn decode(&self, ids: &[u32]) -> Result<String, String> {
        let mut bytes = Vec::with_capacity(4 * ids.len());
        for id in ids {
            let token = usize::try_from(*id)
                .ok()
                .and_then(|id| self.tokens.get(id))
                .filter(|token| !token.is_empty());
            let missing =
                || format!("{} has no token {id}; send the text, or ids of that tokenizer", self.name);
            bytes.extend_from_slice(token.ok_or_else(missing)?);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The id and the bytes of a token.
fn token(line: &str) -> Option<(usize, Vec<u8>)> {
    let (bytes, id) = line.split_once(' ')?;
    let bytes = STANDARD.decode(bytes).ok().filter(|bytes| (1..=TOKEN_BYTES_MAX).contains(&bytes.len()))?;
    let id = id.trim().parse().ok().filter(|id| *id < TOKENS_MAX)?;
    Some((id, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decoder of a file with this content.
    fn loaded(content: &str) -> Result<TokenDecoder, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small.tiktoken");
        std::fs::write(&path, content).unwrap();
        TokenDecoder::load(&path)
    }

    #[test]
    fn ids_become_the_bytes_of_their_tokens() {
        let decoder = loaded("SGVsbG8= 0\nIHc= 1\nw7w= 3\n4oI= 4\n").unwrap();
        assert_eq!(decoder.decode(&[0, 1, 3]), Ok("Hello wü".to_owned()));
        assert_eq!(decoder.decode(&[4]), Ok("\u{fffd}".to_owned()));
        assert_eq!(decoder.decode(&[]), Ok(String::new()));
        for unknown in [2, 5, u32::MAX] {
            assert!(decoder.decode(&[0, unknown]).unwrap_err().contains(&format!("no token {unknown}")));
        }
    }

    #[test]
    fn files_of_another_form_are_refused() {
        for content in ["", "SGVsbG8=\n", "SGVsbG8= x", "??? 1", " 1", "SGVsbG8= 1048576"] {
            assert!(loaded(content).is_err(), "{content:?}");
        }
        assert!(TokenDecoder::load(Path::new("/nonexistent")).is_err());
    }
}
