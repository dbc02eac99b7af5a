//! The dimension of an upstream's embeddings: configured, saved by an earlier run, or taken from the first reply.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The dimension, once it is known.
pub(super) struct Dimension {
    known: OnceLock<usize>,
    /// The file that stores the dimension of the first reply.
    file: PathBuf,
}

impl Dimension {
    /// `configured`, or the dimension that an earlier run saved in the file `name` of `folder`.
    pub(super) fn new(configured: Option<usize>, folder: &Path, name: &str) -> Dimension {
        let file = folder.join(name);
        let saved = || std::fs::read_to_string(&file).ok()?.trim().parse().ok().filter(|length| *length > 0);
        let known = configured.or_else(saved).map_or_else(OnceLock::new, OnceLock::from);
        Dimension { known, file }
    }

    pub(super) fn get(&self) -> Option<usize> {
        self.known.get().copied()
    }

    /// The known dimension; if there is none, sets and saves `received`.
    pub(super) fn get_or_save(&self, received: usize) -> usize {
        *self.known.get_or_init(|| {
            if let Err(error) = self.save(received) {
                let file = self.file.display();
                tracing::warn!(%file, %error, "the dimension of an upstream's embeddings could not be saved; set `dimension`");
            }
            received
        })
    }

    fn save(&self, dimension: usize) -> std::io::Result<()> {
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let draft = self.file.with_extension("draft");
        std::fs::write(&draft, format!("{dimension}\n"))?;
        std::fs::rename(&draft, &self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_dimension_is_saved_and_a_configured_one_wins() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("upstreams");
        let first = Dimension::new(None, &below, "a");
        assert_eq!(first.get(), None);
        assert_eq!((first.get_or_save(8), first.get_or_save(9), first.get()), (8, 8, Some(8)));
        assert_eq!(Dimension::new(None, &below, "a").get(), Some(8));
        assert_eq!(Dimension::new(None, &below, "b").get(), None);
        assert_eq!(Dimension::new(Some(4), &below, "a").get(), Some(4));
    }
}
