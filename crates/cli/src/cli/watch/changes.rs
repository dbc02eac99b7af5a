//! Notices changes below a folder: by inotify, or by looking at it from time to time where the system does not notify.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use walkdir::WalkDir;

/// How often the folder is looked at where the system does not notify.
const POLL: Duration = Duration::from_secs(5);
/// How often it is looked at in any case: a notification can be lost.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Bytes of events that are read at one time.
const EVENT_BYTES: usize = 16 << 10;

/// Notices changes.
pub(super) struct Changes {
    folder: PathBuf,
    /// `None` where the folder is looked at from time to time.
    inotify: Option<Inotify>,
    poll: Duration,
}

struct Inotify {
    events: AsyncFd<OwnedFd>,
    /// The folders by their watch descriptors.
    folders: HashMap<i32, PathBuf>,
    /// Files that were written to and not closed.
    open: HashSet<PathBuf>,
    /// Whether folders are new, or were moved.
    has_new_folders: bool,
}

impl Changes {
    /// Begins to notice changes below `folder`. With `poll`, by looking.
    pub(super) fn begin(folder: &Path, poll: Option<Duration>) -> Changes {
        let mut changes = Changes { folder: folder.to_owned(), inotify: None, poll: poll.unwrap_or(POLL) };
        if poll.is_none() {
            match Inotify::new() {
                Ok(inotify) => changes.inotify = Some(inotify),
                Err(error) => changes.poll_because(&error),
            }
        }
        changes
    }

    /// How often the folder is looked at, if the system does not notify.
    pub(super) fn polled_every(&self) -> Option<Duration> {
        self.inotify.is_none().then_some(self.poll)
    }

    /// Whether a program still writes to the file, as far as is known.
    pub(super) fn is_open(&self, path: &Path) -> bool {
        self.inotify.as_ref().is_some_and(|inotify| inotify.open.contains(path))
    }

    /// Watches all folders, before they are looked at: what changes from now on is noticed.
    pub(super) fn watch_folders(&mut self) {
        let Some(inotify) = self.inotify.as_mut().filter(|inotify| inotify.has_new_folders) else { return };
        if let Err(error) = inotify.watch_folders(&self.folder) {
            self.inotify = None;
            self.poll_because(&error);
        }
    }

    /// Returns after a change, and at the latest when it is time to look at the folder again.
    pub(super) async fn next(&mut self) {
        let Some(inotify) = &mut self.inotify else { return tokio::time::sleep(self.poll).await };
        match tokio::time::timeout(LOOK_AGAIN, inotify.next()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                self.inotify = None;
                self.poll_because(&error);
            }
            // the folder itself can be another one than before
            Err(_) => inotify.has_new_folders = true,
        }
    }

    fn poll_because(&self, error: &std::io::Error) {
        let seconds = self.poll.as_secs_f64();
        let remedy = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOSPC) => "; raise fs.inotify.max_user_watches with sysctl",
            Some(Errno::MFILE) => "; raise fs.inotify.max_user_instances with sysctl",
            _ => "",
        };
        eprintln!(
            "note: the folder is looked at every {seconds} s, because the system does not notify: {error}{remedy}"
        );
    }
}

impl Inotify {
    #[allow(
        deprecated,
        reason = "its successor is unsafe; an owned descriptor stays open as long as it is registered"
    )]
    fn new() -> std::io::Result<Inotify> {
        let events = AsyncFd::new(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?)?;
        Ok(Inotify { events, folders: HashMap::new(), open: HashSet::new(), has_new_folders: true })
    }

    /// Watches every folder that is not hidden. Each is watched before its content is read.
    fn watch_folders(&mut self, folder: &Path) -> std::io::Result<()> {
        self.has_new_folders = false;
        let entries = WalkDir::new(folder).into_iter();
        let entries = entries.filter_entry(|entry| {
            entry.file_type().is_dir() && (entry.depth() == 0 || !is_hidden(entry.file_name()))
        });
        // what can't be read is reported by those who read the files
        for entry in entries.flatten() {
            let flags = WatchFlags::CREATE
                | WatchFlags::MODIFY
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::EXCL_UNLINK
                | WatchFlags::ONLYDIR;
            match inotify::add_watch(self.events.get_ref(), entry.path(), flags) {
                Ok(descriptor) => {
                    self.folders.insert(descriptor, entry.into_path());
                }
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns after a change of files that are not hidden.
    async fn next(&mut self) -> std::io::Result<()> {
        loop {
            let mut ready = self.events.readable().await?;
            ready.clear_ready();
            drop(ready);
            if self.read()? {
                return Ok(());
            }
        }
    }

    /// Reads all events; whether one of them is a change.
    fn read(&mut self) -> std::io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut reader = inotify::Reader::new(self.events.get_ref(), &mut buffer);
        let mut is_changed = false;
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(is_changed),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                self.open.clear();
                (is_changed, self.has_new_folders) = (true, true);
                continue;
            }
            if flags.contains(ReadFlags::IGNORED) {
                self.folders.remove(&event.wd());
                continue;
            }
            let Some(name) = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes())) else {
                (is_changed, self.has_new_folders) = (true, true);
                continue;
            };
            if is_hidden(name) {
                continue;
            }
            is_changed = true;
            if flags.contains(ReadFlags::ISDIR) {
                self.has_new_folders |= flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
                continue;
            }
            let Some(folder) = self.folders.get(&event.wd()) else { continue };
            let path = folder.join(name);
            if flags.intersects(ReadFlags::CREATE | ReadFlags::MODIFY) {
                self.open.insert(path);
            } else {
                self.open.remove(&path);
            }
        }
    }
}

/// Whether the name begins with a dot.
fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}
