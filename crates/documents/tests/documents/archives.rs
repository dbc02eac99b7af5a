//! Archives: their limits, and damaged ones.

use weir_documents::{Archive, Extracted, Failure, Limits, unpack};

use crate::files::{archive_of_bytes, docx, paragraph};

fn unzip(bytes: &[u8], limits: &Limits) -> Result<Extracted, Failure> {
    assert_eq!(Archive::of(bytes, "a.zip"), Some(Archive::Zip));
    unpack(bytes, Archive::Zip, limits)
}

/// The paths of the members, and the parts that are lost with their codes.
fn shown(read: &Extracted) -> (Vec<&str>, Vec<(&str, &str)>) {
    let lost = read.lost.iter().map(|lost| (lost.part.as_str(), lost.code.as_str()));
    (read.attachments.iter().map(|one| one.name.as_str()).collect(), lost.collect())
}

#[test]
fn members_over_a_limit_are_lost_and_the_others_read() {
    let zeros = vec![0; 3 << 20];
    let file = archive_of_bytes(&[
        ("a.txt", b"one"),
        ("zeros.bin", &zeros),
        ("b/c.txt", b"two"),
        ("d.txt", b"three"),
    ]);
    let read = unzip(&file, &Limits::default()).unwrap();
    assert!(read.is_archive && read.text.is_empty());
    assert_eq!(shown(&read), (vec!["a.txt", "b/c.txt", "d.txt"], vec![("zeros.bin", "file_limit")]));
    let few = Limits { archive_members: 3, ..Limits::default() };
    let expected = vec![("zeros.bin", "file_limit"), ("the rest of the archive", "file_limit")];
    assert_eq!(shown(&unzip(&file, &few).unwrap()), (vec!["a.txt", "b/c.txt"], expected));
    let small = Limits { archive_member_bytes: 3, ..Limits::default() };
    let lost = vec![("zeros.bin", "file_limit"), ("d.txt", "file_limit")];
    assert_eq!(shown(&unzip(&file, &small).unwrap()), (vec!["a.txt", "b/c.txt"], lost));
    let little = Limits { archive_bytes: 5, ..Limits::default() };
    let lost = vec![("zeros.bin", "file_limit"), ("the rest of the archive", "file_limit")];
    assert_eq!(shown(&unzip(&file, &little).unwrap()), (vec!["a.txt", "b/c.txt"], lost));
}

#[test]
fn documents_of_office_are_no_archives() {
    assert_eq!(Archive::of(&docx(&paragraph("text"), &[]), "a.zip"), None);
    assert_eq!(Archive::of(&archive_of_bytes(&[("META-INF/MANIFEST.MF", b"x")]), "a.jar"), None);
    assert_eq!(Archive::of(b"\x1f\x8b\x08\0", "a.tar.gz"), None);
    assert_eq!(Archive::of(b"text", "a.zip"), None);
}

#[test]
fn damaged_archives_are_read_or_refused() {
    let whole =
        archive_of_bytes(&[("a.txt", b"one one one"), ("b.txt", &[b'x'; 2_000]), ("c/d.txt", b"three")]);
    let limits = Limits::default();
    for at in 0..whole.len() {
        for damage in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= damage;
            if let Some(archive) = Archive::of(&bytes, "a.zip") {
                let _ = unpack(&bytes, archive, &limits);
            }
        }
        let _ = unpack(&whole[..at], Archive::Zip, &limits);
        let _ = unpack(&whole[..at], Archive::TarGz, &limits);
    }
}
