//! How long an upstream's embeddings are: configured, kept from an earlier run, or found in its first reply.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The length, as soon as it is known.
pub(super) struct Dimension {
    known: OnceLock<usize>,
    /// The file that keeps what was found out.
    file: PathBuf,
}

impl Dimension {
    /// `configured`, or what an earlier run kept in `folder` under `name`.
    pub(super) fn new(configured: Option<usize>, folder: &Path, name: &str) -> Dimension {
        let file = folder.join(name);
        let kept = || std::fs::read_to_string(&file).ok()?.trim().parse().ok().filter(|length| *length > 0);
        let known = configured.or_else(kept).map_or_else(OnceLock::new, OnceLock::from);
        Dimension { known, file }
    }

    pub(super) fn get(&self) -> Option<usize> {
        self.known.get().copied()
    }

    /// The length; where it is not known, `found` becomes it and is kept.
    pub(super) fn get_or_keep(&self, found: usize) -> usize {
        *self.known.get_or_init(|| {
            if let Err(error) = self.keep(found) {
                let file = self.file.display();
                tracing::warn!(%file, %error, "the length of an upstream's embeddings could not be kept; set `dimension`");
            }
            found
        })
    }

    fn keep(&self, found: usize) -> std::io::Result<()> {
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let draft = self.file.with_extension("draft");
        std::fs::write(&draft, format!("{found}\n"))?;
        std::fs::rename(&draft, &self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_kept_and_what_is_configured_wins() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("upstreams");
        let first = Dimension::new(None, &below, "a");
        assert_eq!(first.get(), None);
        assert_eq!((first.get_or_keep(8), first.get_or_keep(9), first.get()), (8, 8, Some(8)));
        assert_eq!(Dimension::new(None, &below, "a").get(), Some(8));
        assert_eq!(Dimension::new(None, &below, "b").get(), None);
        assert_eq!(Dimension::new(Some(4), &below, "a").get(), Some(4));
    }
}
