//! Encrypted files: with an empty password they are read, else refused. RC4 and MD5 are written here, for the test alone.

use crate::pdf::extract;
use crate::pdf::file::{page, raw_stream, show};
use weir_documents::Failure;

/// The padding of passwords (ISO 32000-1, 7.6.3.3).
const PADDING: [u8; 32] = [
    0x28, 0xbf, 0x4e, 0x5e, 0x4e, 0x75, 0x8a, 0x41, 0x64, 0x00, 0x4e, 0x56, 0xff, 0xfa, 0x01, 0x08, 0x2e,
    0x2e, 0x00, 0xb6, 0xd0, 0x68, 0x3e, 0x80, 0x2f, 0x0c, 0xa9, 0xfe, 0x64, 0x53, 0x69, 0x7a,
];

fn md5(data: &[u8]) -> [u8; 16] {
    const SHIFTS: [u32; 16] = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21];
    let mut padded = data.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((data.len() as u64 * 8).to_le_bytes());
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks(64) {
        let word = |at: usize| u32::from_le_bytes(block[4 * at..4 * at + 4].try_into().unwrap());
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64 {
            let (mixed, at) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), (7 * step) % 16),
            };
            let constant = (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a.wrapping_add(mixed).wrapping_add(constant).wrapping_add(word(at));
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16 * 4 + step % 4]));
        }
        for (value, add) in state.iter_mut().zip([a, b, c, d]) {
            *value = value.wrapping_add(add);
        }
    }
    let mut digest = [0; 16];
    digest.copy_from_slice(&state.map(u32::to_le_bytes).concat());
    digest
}

fn rc4(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut table: Vec<u8> = (0..=255).collect();
    let mut j = 0;
    for i in 0..256 {
        j = (j + usize::from(table[i]) + usize::from(key[i % key.len()])) % 256;
        table.swap(i, j);
    }
    let (mut i, mut j) = (0, 0);
    let next = |byte: &u8| {
        i = (i + 1) % 256;
        j = (j + usize::from(table[i])) % 256;
        table.swap(i, j);
        byte ^ table[(usize::from(table[i]) + usize::from(table[j])) % 256]
    };
    data.iter().map(next).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A page that is encrypted with RC4 of 40 bits and the user password.
fn encrypted(password: &[u8]) -> Vec<u8> {
    let (owner, permissions, id) = ([7_u8; 32], -4_i32, [1_u8; 16]);
    let padded: Vec<u8> = password.iter().chain(&PADDING).copied().take(32).collect();
    let key = &md5(&[&padded[..], &owner, &permissions.to_le_bytes(), &id].concat())[..5];
    let object_key = &md5(&[key, &[5, 0, 0, 0, 0]].concat())[..10];
    let content = rc4(object_key, show(50.0, 700.0, 10.0, "A secret that has no password").as_bytes());
    let encrypt = format!(
        "<</Filter/Standard/V 1/R 2/O<{}>/U<{}>/P {permissions}>>",
        hex(&owner),
        hex(&rc4(key, &PADDING))
    );
    let mut file = page("").set(5, raw_stream(&content, "")).set(9, encrypt);
    file.trailer = format!("/Encrypt 9 0 R/ID[<{0}><{0}>]", hex(&id));
    file.bytes()
}

#[test]
fn files_with_an_empty_password_are_read_and_others_refused() {
    assert_eq!(hex(&md5(b"message digest")), "f96b697d7cb7938d525a2f31aaf161d0");
    assert_eq!(hex(&rc4(b"Key", b"Plaintext")), "bbf316e8d940af0ad3");
    assert_eq!(extract(&encrypted(b"")).unwrap().text, "A secret that has no password");
    assert_eq!(extract(&encrypted(b"secret")), Err(Failure::Encrypted));
}
