//! The child: gives up what it does not need, reads the file, writes the result.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use weir_documents::{Extracted, Failure, Limits};

use crate::frames;
use crate::request::Request;
use crate::sandbox::{self, Protections, Sandbox};

/// The hidden command of the gateway's binary that is the child.
pub const COMMAND: &str = "extract-child";

/// The stack on which a file is read. Recursion that exceeds it ends the process.
const STACK_BYTES: usize = 16 << 20;

/// The stack of the thread that ends the process.
const TIMER_STACK_BYTES: usize = 64 << 10;

/// The gateway ends a child at its deadline. Time after it at which a child whose gateway is gone ends itself.
const ORPHAN_GRACE: Duration = Duration::from_secs(5);

/// Exit codes of a child without a result.
const PANICKED: u8 = 70;
const NOT_ISOLATED: u8 = 71;
const NO_INPUT: u8 = 72;

/// A function that reads the bytes of the file of a name.
type Read = fn(&[u8], &str, &Limits) -> Result<Extracted, Failure>;

/// Reads the file on the standard input with `read`, and writes the result to the standard output.
///
/// The process must be a child of [`Isolation::extract`](crate::Isolation::extract).
#[must_use]
pub fn run_child(read: Read) -> ExitCode {
    let mut input = io::stdin().lock();
    let Ok(request) = Request::read(&mut input) else { return ExitCode::from(NO_INPUT) };
    if let Err(error) = sandbox::limit(&request) {
        complain(&format!("limits cannot be set: {error}"));
        return ExitCode::from(NOT_ISOLATED);
    }
    let landlock = sandbox::refuse_files();
    let mut bytes = Vec::new();
    if input.read_to_end(&mut bytes).is_err() {
        return ExitCode::from(NO_INPUT);
    }
    isolate_and_read(read, request, bytes, landlock)
}

fn isolate_and_read(read: Read, request: Request, bytes: Vec<u8>, landlock: String) -> ExitCode {
    let end = Duration::from_millis(request.wall_ms) + ORPHAN_GRACE;
    let sandbox = request.sandbox;
    let (start, started) = sync_channel::<Protections>(1);
    // both threads begin before the filter, which allows no further ones
    let reader = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let Ok(protections) = started.recv() else { return Ok(()) };
        let mut out = io::stdout().lock();
        frames::write_protections(&mut out, &protections)?;
        frames::write_result(&mut out, read(&bytes, &request.name, &request.limits()))
    });
    let timer = thread::Builder::new().stack_size(TIMER_STACK_BYTES).spawn(move || {
        thread::sleep(end);
        std::process::abort()
    });
    let (Ok(reader), Ok(_)) = (reader, timer) else { return ExitCode::from(NOT_ISOLATED) };
    let protections = Protections { seccomp: sandbox::refuse_calls(), landlock };
    if let (Err(reason), Sandbox::Required) = (&protections.seccomp, sandbox) {
        complain(&format!("system calls cannot be filtered: {reason}"));
        return ExitCode::from(NOT_ISOLATED);
    }
    let _ = start.send(protections);
    match reader.join() {
        Ok(Ok(())) => ExitCode::SUCCESS,
        // the gateway is gone
        Ok(Err(_)) => ExitCode::from(NO_INPUT),
        Err(_) => ExitCode::from(PANICKED),
    }
}

/// Whether a child with this exit code refused to read.
pub(crate) fn is_not_isolated(code: i32) -> bool {
    code == i32::from(NOT_ISOLATED)
}

fn complain(reason: &str) {
    let _ = io::stderr().write_all(reason.as_bytes());
}
