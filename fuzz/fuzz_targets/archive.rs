//! No archive panics, and its members have relative paths. The first byte says which kind of archive the rest is taken for; a tar archive is one
//! block that is not compressed, so that no checksum is in the way.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_documents::{Archive, Limits, unpack};

/// The head of a file of gzip, and one block that is not compressed. Its sum is missing, which is noticed behind the content.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
    let length = bytes.len() as u16;
    let mut file = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01".to_vec();
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(&(!length).to_le_bytes());
    file.extend_from_slice(bytes);
    file
}

fuzz_target!(|input: &[u8]| {
    let Some((kind, bytes)) = input.split_first() else { return };
    let limits = Limits { archive_bytes: 1 << 20, archive_member_bytes: 1 << 18, ..Limits::default() };
    let read = if kind % 2 == 0 {
        unpack(bytes, Archive::Zip, &limits)
    } else {
        unpack(&gzip(bytes), Archive::TarGz, &limits)
    };
    if let Ok(read) = read {
        for member in read.attachments {
            assert!(!member.name.starts_with('/') && !member.name.split('/').any(|part| part == ".."));
        }
    }
});
