//! Files of which some pages end the child: the others are read.
//!
//! The child reports each page before it reads it. A page on which it ends is left out of the next attempt; where it was not the page that took
//! the time, the pages before it are read alone.

use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::time::Instant;

use rustix::fs::MemfdFlags;
use weir_documents::{Extracted, Lost, Warning};

use crate::error::ExtractError;
use crate::parent::{Ended, Isolation, sealed};

/// Attempts for one file.
const ATTEMPTS_MAX: usize = 4;
/// All attempts together take at most this many times the limit of one.
const WALLS_MAX: u32 = 3;
/// A page that takes this part of the time of a file is the reason that it ran out.
const SLOW_PAGE_PART: u32 = 4;

/// Reads a file, without the pages on which the child ends.
pub(crate) fn extract(
    isolation: &Isolation,
    name: &str,
    file: &mut (impl Read + ?Sized),
) -> Result<Extracted, ExtractError> {
    let begun = Instant::now();
    let mut request = isolation.request(name);
    let mut kept = kept(file)?;
    let mut lost: Vec<Lost> = Vec::new();
    for attempt in 1.. {
        kept.rewind()?;
        let Ended { error, page } = match isolation.run(sealed(&request, &mut kept)?) {
            Ok((extracted, _)) => return Ok(with_lost(extracted, lost)),
            Err(ended) => ended,
        };
        let is_over = attempt == ATTEMPTS_MAX || begun.elapsed() > isolation.wall * (WALLS_MAX - 1);
        let (Some((page, took)), false) = (page.filter(|_| is_of_a_page(&error)), is_over) else {
            return Err(error);
        };
        let is_slow_as_a_whole = matches!(error, ExtractError::Timeout { .. })
            && took
                < isolation.wall.min(std::time::Duration::from_secs(isolation.cpu_seconds)) / SLOW_PAGE_PART;
        if is_slow_as_a_whole || request.skipped_pages.contains(&page) {
            // as many pages as the time is enough for
            request.pages_max = page * 3 / 4;
            if request.pages_max == 0 {
                return Err(error);
            }
            lost.push(of_pages(format!("{}-", request.pages_max + 1), &error));
        } else {
            request.skipped_pages.push(page);
            lost.push(of_pages((page + 1).to_string(), &error));
        }
    }
    Err(ExtractError::Crashed("no attempt is left".to_owned()))
}

/// The file, for several attempts.
fn kept(file: &mut (impl Read + ?Sized)) -> io::Result<File> {
    let mut kept = File::from(rustix::fs::memfd_create("kept", MemfdFlags::CLOEXEC)?);
    io::copy(file, &mut kept)?;
    Ok(kept)
}

/// Whether a page can be the reason.
fn is_of_a_page(error: &ExtractError) -> bool {
    matches!(error, ExtractError::Timeout { .. } | ExtractError::Memory { .. } | ExtractError::Crashed(_))
}

fn of_pages(part: String, error: &ExtractError) -> Lost {
    // the message of a panic can have parts of the file
    let message = if matches!(error, ExtractError::Crashed(_)) {
        "the process that read it crashed".to_owned()
    } else {
        error.to_string()
    };
    Lost { part, code: error.code().to_owned(), message }
}

fn with_lost(mut extracted: Extracted, mut lost: Vec<Lost>) -> Extracted {
    if lost.is_empty() {
        return extracted;
    }
    let (code, message) = ("broken_page".to_owned(), "pages could not be read".to_owned());
    let count = lost.len() as u64;
    match extracted.warnings.iter_mut().find(|warning| warning.code == code) {
        Some(warning) => warning.count += count,
        None => extracted.warnings.push(Warning { code, message, count }),
    }
    lost.append(&mut extracted.lost);
    extracted.lost = lost;
    extracted
}
