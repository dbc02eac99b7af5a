//! Ids of points.

use sha1::{Digest as _, Sha1};
use uuid::{Builder, Uuid};

/// The namespace of the ids of points.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f2d_51f4_4c0e_5b0b_9a55_7d1c_2b3e_8f10);

/// The id of a point: a UUID of version 5 (RFC 9562) of the tenant, the document and the chunk, so that a repeated change is of the same point.
///
/// Lengths stand before the parts: no two points have the same name.
pub fn point_id(tenant: &str, document: &str, chunk: u32) -> Uuid {
    let mut sha1 = Sha1::new();
    sha1.update(NAMESPACE.as_bytes());
    for part in [tenant, document] {
        sha1.update((part.len() as u64).to_be_bytes());
        sha1.update(part.as_bytes());
    }
    sha1.update(chunk.to_be_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&sha1.finalize()[..16]);
    Builder::from_sha1_bytes(bytes).into_uuid()
}

/// The first 20 hexadecimal digits of the SHA-1 of a text: a key of fixed length for texts that may be long.
pub fn digest(text: &str) -> String {
    Sha1::digest(text.as_bytes())[..10].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_of_version_5_of_tenant_document_and_chunk() {
        let id = point_id("t", "doc", 7);
        assert_eq!((id.get_version_num(), id), (5, point_id("t", "doc", 7)));
        let others = [
            point_id("u", "doc", 7),
            point_id("t", "doc", 8),
            point_id("td", "oc", 7),
            point_id("t", "do", 7),
        ];
        others.iter().for_each(|other| assert_ne!(*other, id));
    }
}
