//! The files of a watched folder as they were seen last: which are to be sent, and which are gone.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use weir_sources::SourceFile;

/// A file that was closed, or whose writer is not known, is sent after this time without a change.
pub(super) const QUIET: Duration = Duration::from_millis(500);
/// For this time after a file was found, and not longer, it can be a file that is gone from elsewhere.
const NEW: Duration = Duration::from_secs(30);
/// The same for a file that a program still has open.
const QUIET_OPEN: Duration = Duration::from_secs(10);

/// The identity of a file's content, as far as it is known without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    bytes: u64,
    modified: Option<SystemTime>,
}

struct Known {
    id: String,
    stat: Stat,
    /// When it was found.
    found_at: Instant,
    /// Since when it has not changed.
    since: Instant,
    is_sent: bool,
}

/// The files of a folder.
#[derive(Default)]
pub(super) struct FolderFiles {
    files: HashMap<PathBuf, Known>,
    /// Files that are missing, and since when.
    missing: HashMap<PathBuf, (String, Instant)>,
    is_known: bool,
}

/// The files found by one look.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// The files to send.
    pub(super) due: HashSet<PathBuf>,
    /// The ids of files that stay as they are for now: those that were sent, that are being written, and that are missing for a moment.
    pub(super) left: Vec<String>,
    /// Whether a file that was found lately is not sent yet.
    pub(super) has_new: bool,
    /// When the next file is to be sent or to be taken for gone.
    pub(super) next: Option<Instant>,
}

impl FolderFiles {
    /// Compares the files that were found with those that were there before. `quiet` is the time without a change after which a file is complete,
    /// unless it `is_open`.
    pub(super) fn look(
        &mut self,
        found: &[SourceFile],
        is_open: impl Fn(&Path) -> bool,
        quiet: Duration,
        now: Instant,
    ) -> Look {
        let mut look = Look::default();
        let mut before = std::mem::take(&mut self.files);
        for file in found {
            let path = file.path().to_owned();
            let stat = stat_of(&path);
            let known = before.remove(&path);
            let found_at = known.as_ref().map_or(now, |known| known.found_at);
            let since = match known {
                Some(known) if known.stat == stat => {
                    let known = Known { id: file.id().to_owned(), ..known };
                    self.add(path, known, &is_open, quiet, now, &mut look);
                    continue;
                }
                // files that are complete when the program starts
                None if !self.is_known && is_older(stat, QUIET_OPEN) => now.checked_sub(QUIET_OPEN),
                _ => None,
            };
            let (id, since) = (file.id().to_owned(), since.unwrap_or(now));
            let known = Known { id, stat, found_at, since, is_sent: false };
            self.add(path, known, &is_open, quiet, now, &mut look);
        }
        self.missing.extend(before.into_iter().map(|(path, known)| (path, (known.id, now))));
        self.missing.retain(|path, (id, since)| {
            let is_missing = !self.files.contains_key(path) && now < *since + quiet;
            if is_missing {
                look.left.push(id.clone());
                look.wait_until(*since + quiet);
            }
            is_missing
        });
        self.is_known = true;
        look
    }

    /// Takes note that the files of a look were sent.
    pub(super) fn sent(&mut self, look: &Look) {
        for path in &look.due {
            if let Some(known) = self.files.get_mut(path) {
                known.is_sent = true;
            }
        }
    }

    fn add(
        &mut self,
        path: PathBuf,
        known: Known,
        is_open: &impl Fn(&Path) -> bool,
        quiet: Duration,
        now: Instant,
        look: &mut Look,
    ) {
        let due_at = known.since + if is_open(&path) { QUIET_OPEN.max(quiet) } else { quiet };
        if known.is_sent || now < due_at {
            look.left.push(known.id.clone());
        } else {
            look.due.insert(path.clone());
        }
        if !known.is_sent && now < due_at {
            look.wait_until(due_at);
            look.has_new |= now < known.found_at + NEW;
        }
        self.files.insert(path, known);
    }
}

impl Look {
    fn wait_until(&mut self, at: Instant) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

fn stat_of(path: &Path) -> Stat {
    let about = std::fs::metadata(path).ok();
    let modified = about.as_ref().and_then(|about| about.modified().ok());
    Stat { bytes: about.map(|about| about.len()).unwrap_or_default(), modified }
}

fn is_older(stat: Stat, age: Duration) -> bool {
    let elapsed = stat.modified.and_then(|modified| modified.elapsed().ok());
    elapsed.is_some_and(|elapsed| elapsed >= age)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sources::SourceFiles;

    fn names(look: &Look) -> (Vec<String>, Vec<String>) {
        let mut due: Vec<String> =
            look.due.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        let mut left = look.left.clone();
        due.sort_unstable();
        left.sort_unstable();
        (due, left)
    }

    #[test]
    fn files_are_due_when_they_have_rested() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("a.txt", "a");
        let mut files = FolderFiles::default();
        let begin = Instant::now();
        let mut look = |at: f64, open: &str| {
            let now = begin + Duration::from_secs_f64(at);
            let found = SourceFiles::find(&[folder.path().to_owned()], "").files;
            let look = files.look(&found, |path| path.ends_with(open), QUIET, now);
            files.sent(&look);
            (names(&look), look.next.map(|next| (next - begin).as_secs_f64()))
        };
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        // just written, then due, then sent
        assert_eq!(look(0.0, "-"), ((list(&[]), list(&["a.txt"])), Some(0.5)));
        assert_eq!(look(0.5, "-"), ((list(&["a.txt"]), list(&[])), None));
        assert_eq!(look(0.6, "-"), ((list(&[]), list(&["a.txt"])), None));
        // a change begins anew; one that is open rests for longer
        write("a.txt", "ab");
        write("b.txt", "b");
        assert_eq!(look(1.0, "b.txt"), ((list(&[]), list(&["a.txt", "b.txt"])), Some(1.5)));
        assert_eq!(look(1.5, "b.txt"), ((list(&["a.txt"]), list(&["b.txt"])), Some(11.0)));
        assert_eq!(look(1.6, "-"), ((list(&["b.txt"]), list(&["a.txt"])), None));
        // a file that is missing is gone a moment later
        std::fs::remove_file(folder.path().join("a.txt")).unwrap();
        assert_eq!(look(2.0, "-"), ((list(&[]), list(&["a.txt", "b.txt"])), Some(2.5)));
        assert_eq!(look(2.5, "-"), ((list(&[]), list(&["b.txt"])), None));
    }
}
