//! Tar archives: members of 512-byte blocks behind a head of one block, with long names of GNU and POSIX.

use std::io::Read;

use super::{LINK, Members, is_hidden};
use crate::Failure;

const BLOCK: usize = 512;
/// Bytes of a long name or of the fields of a member.
const FIELDS_BYTES_MAX: u64 = 64 << 10;

/// Reads all members.
pub(super) fn read(mut tar: impl Read, members: &mut Members<'_>) -> Result<(), Failure> {
    let mut long_name = None;
    let mut total: u64 = 0;
    while let Some(head) = next_head(&mut tar)? {
        let bytes = head.bytes;
        total = total.saturating_add(bytes).saturating_add(BLOCK as u64);
        if total > members.limits.archive_bytes.saturating_mul(2) {
            let most = members.limits.archive_bytes;
            return Err(Failure::FileLimit(format!("its files unpack to more than {most} bytes: divide it")));
        }
        let mut content = tar.by_ref().take(bytes);
        match head.kind {
            // names of the next member
            b'L' => long_name = Some(text(&fields(&mut content, bytes)?)),
            b'x' => long_name = path_of(&fields(&mut content, bytes)?).or(long_name),
            b'g' | b'5' | b'K' => {}
            b'0' | b'\0' | b'7' => {
                let name = long_name.take().unwrap_or(head.name);
                if !is_hidden(&name) && !name.ends_with('/') {
                    let mut counted = Exact { inner: &mut content, left: bytes };
                    members.add(&name, &mut counted, None)?;
                }
            }
            _ => {
                let name = long_name.take().unwrap_or(head.name);
                members.check_count()?;
                if !is_hidden(&name) {
                    members.lose(&name, &Failure::UnsupportedFormat(LINK.to_owned()));
                }
            }
        }
        let rest = content.limit();
        skip(&mut tar, rest + padding(bytes))?;
    }
    Ok(())
}

struct Head {
    name: String,
    bytes: u64,
    kind: u8,
}

/// The next head; `None` at the end.
fn next_head(tar: &mut impl Read) -> Result<Option<Head>, Failure> {
    let mut block = [0; BLOCK];
    let mut read = 0;
    while read < BLOCK {
        match tar.read(&mut block[read..]).map_err(|error| damaged(&error.to_string()))? {
            // without its last blocks of zeros
            0 if read == 0 => return Ok(None),
            0 => return Err(damaged("it ends within a head")),
            more => read += more,
        }
    }
    if block.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let sum: u64 = block
        .iter()
        .enumerate()
        .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) })
        .sum();
    if number(&block[148..156]) != Some(sum) {
        return Err(damaged("a head has a wrong sum"));
    }
    let bytes = number(&block[124..136]).ok_or_else(|| damaged("a head has no size"))?;
    let mut name = text(&block[..100]);
    let prefix = text(&block[345..500]);
    if block[257..].starts_with(b"ustar\0") && !prefix.is_empty() {
        name = format!("{prefix}/{name}");
    }
    Ok(Some(Head { name, bytes, kind: block[156] }))
}

/// A number in octal digits, or in binary where the first bit is set.
fn number(field: &[u8]) -> Option<u64> {
    if field.first().is_some_and(|first| first & 0x80 != 0) {
        let mut value = u64::from(field[0] & 0x7f);
        for byte in &field[1..] {
            value = value.checked_mul(256)?.checked_add(u64::from(*byte))?;
        }
        return Some(value);
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    u64::from_str_radix(text, 8).ok()
}

/// A text up to its first zero.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn fields(content: &mut impl Read, bytes: u64) -> Result<Vec<u8>, Failure> {
    if bytes > FIELDS_BYTES_MAX {
        return Err(Failure::FileLimit("the name of one of its files is too long".to_owned()));
    }
    let mut fields = Vec::new();
    content.read_to_end(&mut fields).map_err(|error| damaged(&error.to_string()))?;
    Ok(fields)
}

/// The field `path` of lines `LENGTH NAME=VALUE`.
fn path_of(fields: &[u8]) -> Option<String> {
    let mut rest = fields;
    while let Some(space) = rest.iter().position(|byte| *byte == b' ') {
        let length: usize = std::str::from_utf8(&rest[..space]).ok()?.parse().ok()?;
        let line = rest.get(space + 1..length)?.trim_ascii_end();
        if let Some(path) = line.strip_prefix(b"path=") {
            return Some(String::from_utf8_lossy(path).into_owned());
        }
        rest = rest.get(length..)?;
    }
    None
}

fn padding(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK as u64) - bytes
}

fn skip(tar: &mut impl Read, bytes: u64) -> Result<(), Failure> {
    let skipped = std::io::copy(&mut tar.take(bytes), &mut std::io::sink());
    skipped.map(drop).map_err(|error| damaged(&error.to_string()))
}

fn damaged(reason: &str) -> Failure {
    Failure::DamagedFile(format!("the tar archive: {reason}"))
}

/// A member, whose end before its announced size is an error.
struct Exact<'a, R> {
    inner: &'a mut R,
    left: u64,
}

impl<R: Read> Read for Exact<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left -= read as u64;
        if read == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(read)
    }
}
