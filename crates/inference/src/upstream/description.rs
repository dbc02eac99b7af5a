//! Another gateway's description of its embedding model: its tokenizer, its prompts, its limits.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use weir_api::EmbedderReply;
use weir_encoder::Tokenizer;

/// The description, once it is known. It is saved, so that the next start does not need the other gateway.
pub(crate) struct Description {
    known: OnceLock<Described>,
    file: PathBuf,
}

/// A model of another gateway.
pub(crate) struct Described {
    pub(crate) reply: EmbedderReply,
    /// `None` if the model of the other gateway has none.
    pub(crate) tokenizer: Option<Tokenizer>,
}

impl Description {
    /// The description that an earlier run saved in the file `name` of `folder`, if there is one.
    pub(super) fn new(folder: &Path, name: &str) -> Description {
        let file = folder.join(format!("{name}.json"));
        let saved = std::fs::read(&file).ok().and_then(|bytes| {
            read(&bytes)
                .inspect_err(|reason| tracing::warn!(file = %file.display(), reason, "a saved description can't be read; it is fetched again"))
                .ok()
        });
        Description { known: saved.map_or_else(OnceLock::new, OnceLock::from), file }
    }

    pub(super) fn get(&self) -> Option<&Described> {
        self.known.get()
    }

    /// Keeps the body of a reply, unless a description is known.
    ///
    /// # Errors
    /// A message about the defect of the reply.
    pub(super) fn keep(&self, body: &[u8]) -> Result<(), String> {
        let described = read(body)?;
        if let Err(error) = self.save(body) {
            let file = self.file.display();
            tracing::warn!(%file, %error, "the description of a model could not be saved; the next start needs the other gateway");
        }
        // fails if another request was answered before
        drop(self.known.set(described));
        Ok(())
    }

    /// Removes the saved description, so that the next start fetches a new one.
    pub(super) fn forget(&self) {
        drop(std::fs::remove_file(&self.file));
    }

    fn save(&self, body: &[u8]) -> std::io::Result<()> {
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let draft = self.file.with_extension("draft");
        std::fs::write(&draft, body)?;
        std::fs::rename(&draft, &self.file)
    }
}

fn read(body: &[u8]) -> Result<Described, String> {
    let mut reply: EmbedderReply = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if reply.dimension == 0 {
        return Err("`dimension` is 0".to_owned());
    }
    let json = reply.tokenizer.take();
    let limit = reply.max_input_tokens.unwrap_or(usize::MAX);
    let mut tokenizer =
        json.map(|json| Tokenizer::from_json(json.get().as_bytes().to_vec(), limit)).transpose()?;
    if let Some(tokenizer) = &mut tokenizer {
        tokenizer.try_out(usize::MAX)?;
    }
    Ok(Described { reply, tokenizer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_kept_for_the_next_start_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("upstreams");
        let body = br#"{"model":"m","fingerprint":"f","dimension":8,"dimensions":[4],"max_input_tokens":null,
            "normalized":true,"prompts":{"query":"q: ","document":""},"tokenizer":null}"#;
        let first = Description::new(&below, "a");
        assert!(first.get().is_none());
        assert!(first.keep(b"{}").unwrap_err().contains("missing field"));
        first.keep(body).unwrap();
        assert_eq!(first.get().unwrap().reply.dimension, 8);
        let second = Description::new(&below, "a");
        assert_eq!(second.get().unwrap().reply.prompts.query, "q: ");
        second.forget();
        assert!(Description::new(&below, "a").get().is_none());
        std::fs::write(below.join("a.json"), "damaged").unwrap();
        assert!(Description::new(&below, "a").get().is_none());
    }
}
