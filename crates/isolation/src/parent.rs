//! The parent: starts a child for a file, reads its output up to limits and a deadline, and names the reason of its end.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, SeekFrom};
use weir_documents::Extracted;

use crate::child;
use crate::error::ExtractError;
use crate::frames::Output;
use crate::partial;
use crate::request::Request;
use crate::sandbox::{Protections, Sandbox};

/// The program of this process.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Bytes of the standard error that are kept.
const STDERR_BYTES_MAX: usize = 4096;

/// Bytes of a line of it in a message.
const MESSAGE_BYTES_MAX: usize = 200;

/// Bytes of a read of the output.
const READ_BYTES: usize = 64 << 10;

/// The time in which a child that closed its output must end.
const EXIT_GRACE: Duration = Duration::from_secs(1);

/// The beginning of the message of an allocation that failed.
const ALLOCATION_FAILED: &str = "memory allocation of";

/// How files are read: the limits of a child.
#[derive(Debug, Clone)]
pub struct Isolation {
    /// Whether files are read where system calls cannot be filtered.
    pub sandbox: Sandbox,
    /// Most time for a file.
    pub wall: Duration,
    /// Most CPU time for a file.
    pub cpu_seconds: u64,
    /// Most memory of a child: its address space.
    pub memory_bytes: u64,
    /// Most bytes of text of a file; the rest is cut.
    pub text_bytes_max: usize,
    /// Most pages of a file; the rest is cut.
    pub pages_max: usize,
    /// Whether text is read that files hide.
    pub hidden_text: bool,
    /// Whether comments are read.
    pub comments: bool,
    /// Whether archives are unpacked.
    pub archives: bool,
}

impl Default for Isolation {
    fn default() -> Isolation {
        Isolation {
            sandbox: Sandbox::Required,
            wall: Duration::from_secs(60),
            cpu_seconds: 30,
            memory_bytes: 1 << 30,
            text_bytes_max: 16 << 20,
            pages_max: 20_000,
            hidden_text: false,
            comments: true,
            archives: false,
        }
    }
}

impl Isolation {
    /// Reads a file in a child process. Blocks until the child has ended, at the latest at the deadline. A page on which the child ends is left
    /// out, and the file is read again without it ([`partial`](crate::partial)).
    ///
    /// # Errors
    /// [`ExtractError`].
    pub fn extract(&self, name: &str, file: &mut (impl Read + ?Sized)) -> Result<Extracted, ExtractError> {
        partial::extract(self, name, file)
    }

    /// The protections of a child on this machine.
    ///
    /// # Errors
    /// [`ExtractError::NoSandbox`] where a required one is missing; as [`Isolation::extract`].
    pub fn probe(&self) -> Result<Protections, ExtractError> {
        let request = self.request("probe.txt");
        let input = sealed(&request, &mut b"probe".as_slice())?;
        let (_, protections) = self.run(input).map_err(|ended| ended.error)?;
        protections.ok_or_else(|| ExtractError::Crashed("it did not report its protections".to_owned()))
    }

    pub(crate) fn request(&self, name: &str) -> Request {
        Request {
            name: name.to_owned(),
            text_bytes_max: self.text_bytes_max,
            pages_max: self.pages_max,
            skipped_pages: Vec::new(),
            hidden_text: self.hidden_text,
            comments: self.comments,
            archives: self.archives,
            sandbox: self.sandbox,
            memory_bytes: self.memory_bytes,
            cpu_seconds: self.cpu_seconds,
            wall_ms: u64::try_from(self.wall.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Runs a child over its input.
    pub(crate) fn run(&self, input: OwnedFd) -> Result<(Extracted, Option<Protections>), Ended> {
        let failed = |error: io::Error| Ended { error: error.into(), page: None };
        let deadline = Instant::now() + self.wall;
        let mut child = Command::new(OWN_PROGRAM)
            .arg(child::COMMAND)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(input))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut output = Output::new(self.text_bytes_max);
        let mut stderr = Vec::new();
        let read = read_output(&mut child, &mut output, &mut stderr, deadline);
        let ends_itself = matches!(read, Ok(None)) && !output.is_complete();
        let status = end(&mut child, ends_itself).map_err(failed)?;
        let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
        let page = output.page().map(|(number, since)| (number, since.elapsed()));
        let ended = |error| Ended { error, page };
        match read.map_err(failed)? {
            Some(Refusal::Deadline) => Err(ended(self.timeout())),
            Some(Refusal::Output(reason)) => Err(Ended::crashed(reason)),
            None if !output.is_complete() => Err(ended(self.reason_of(status, stderr))),
            None => {
                let protections = output.protections().cloned();
                let result = output.finish().map_err(Ended::crashed)?;
                Ok((result.map_err(|failure| Ended { error: failure.into(), page: None })?, protections))
            }
        }
    }

    /// Why a child ended without a result.
    fn reason_of(&self, status: Option<ExitStatus>, stderr: String) -> ExtractError {
        let Some(status) = status else {
            return ExtractError::Crashed("it closed its output and went on".to_owned());
        };
        if stderr.contains(ALLOCATION_FAILED) {
            return ExtractError::Memory { memory_bytes: self.memory_bytes };
        }
        match status.signal() {
            Some(libc::SIGXCPU) => self.timeout(),
            // it was not the parent that sent it: the kernel, for memory
            Some(libc::SIGKILL) => ExtractError::Memory { memory_bytes: self.memory_bytes },
            Some(_) => ExtractError::Crashed(format!("{status}; {}", first_line(&stderr))),
            None if status.code().is_some_and(child::is_not_isolated) => ExtractError::NoSandbox(stderr),
            None => ExtractError::Crashed(format!("{status}; {}", first_line(&stderr))),
        }
    }

    fn timeout(&self) -> ExtractError {
        ExtractError::Timeout { wall: self.wall, cpu_seconds: self.cpu_seconds }
    }
}

/// The end of a child without a result.
pub(crate) struct Ended {
    pub(crate) error: ExtractError,
    /// The page that was being read, from 0, and for how long; `None` where the file as a whole is refused.
    pub(crate) page: Option<(usize, Duration)>,
}

impl Ended {
    fn crashed(reason: &str) -> Ended {
        Ended { error: ExtractError::Crashed(reason.to_owned()), page: None }
    }
}

/// Why the parent ended the child.
enum Refusal {
    Deadline,
    Output(&'static str),
}

/// The request and the file, in sealed memory: a child reads it without waiting for a writer.
pub(crate) fn sealed(request: &Request, file: &mut (impl Read + ?Sized)) -> io::Result<OwnedFd> {
    let memory = rustix::fs::memfd_create("file", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut memory = File::from(memory);
    request.write(&mut memory)?;
    io::copy(file, &mut memory)?;
    memory.flush()?;
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&memory, all)?;
    rustix::fs::seek(&memory, SeekFrom::Start(0))?;
    Ok(memory.into())
}

/// Reads until the output is complete or closed. The standard error is read too, so that a child never waits for its reader.
fn read_output(
    child: &mut Child,
    output: &mut Output,
    stderr: &mut Vec<u8>,
    mut deadline: Instant,
) -> io::Result<Option<Refusal>> {
    let (mut stdout, mut errors) = (child.stdout.take(), child.stderr.take());
    let mut buffer = vec![0; READ_BYTES];
    while stdout.is_some() || errors.is_some() {
        let rest = deadline.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Ok(stdout.is_some().then_some(Refusal::Deadline));
        }
        let (is_output, is_error) = wait(stdout.as_ref(), errors.as_ref(), rest)?;
        if is_error && let Some(open) = &mut errors {
            let read = open.read(&mut buffer)?;
            stderr.extend_from_slice(&buffer[..read.min(STDERR_BYTES_MAX - stderr.len())]);
            if read == 0 || stderr.len() == STDERR_BYTES_MAX {
                errors = None;
            }
        }
        if is_output && let Some(open) = &mut stdout {
            let read = open.read(&mut buffer)?;
            if let Err(reason) = output.push(&buffer[..read]) {
                return Ok(Some(Refusal::Output(reason)));
            }
            if output.is_complete() {
                return Ok(None);
            }
            if read == 0 {
                // it ends now; the message of an abort may still be to read
                stdout = None;
                deadline = deadline.min(Instant::now() + EXIT_GRACE);
            }
        }
    }
    Ok(None)
}

/// Waits until one of both can be read, at most `rest`.
fn wait(
    stdout: Option<&ChildStdout>,
    stderr: Option<&ChildStderr>,
    rest: Duration,
) -> io::Result<(bool, bool)> {
    let mut waited: Vec<PollFd<'_>> = Vec::with_capacity(2);
    waited.extend(stdout.map(|stdout| PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)));
    waited.extend(stderr.map(|stderr| PollFd::from_borrowed_fd(stderr.as_fd(), PollFlags::IN)));
    let rest = Timespec::try_from(rest).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match poll(&mut waited, Some(&rest)) {
        Ok(_) => {
            let mut ready = waited.iter().map(|fd| !fd.revents().is_empty());
            let is_output = stdout.is_some() && ready.next() == Some(true);
            let is_error = stderr.is_some() && ready.next() == Some(true);
            Ok((is_output, is_error))
        }
        Err(rustix::io::Errno::INTR) => Ok((false, false)),
        Err(error) => Err(error.into()),
    }
}

/// Ends the child. `None`: it did not end by itself in time.
fn end(child: &mut Child, ends_itself: bool) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + EXIT_GRACE;
    while ends_itself && Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

fn first_line(text: &str) -> &str {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    &line[..line.floor_char_boundary(MESSAGE_BYTES_MAX)]
}
