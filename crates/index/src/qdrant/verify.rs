//! Whether the documents of a collection are whole.

use std::collections::HashMap;

use weir_qdrant::api::ScrollPoints;

use super::Shared;
use super::points::{CHUNK, CHUNKS, DOCUMENT, VERSION};
use crate::{ConsistencyReport, Inconsistency, Result};

/// Points per page.
const PAGE: u32 = 1000;

/// The counted chunks of a document.
#[derive(Default)]
struct Counted {
    /// By version: the chunks found, and those that there should be.
    versions: Vec<(i64, u32, u32)>,
}

impl Shared {
    /// Reads which chunks of which versions there are. Documents that are changed meanwhile may be reported.
    pub(super) async fn verify(&self) -> Result<ConsistencyReport> {
        let (mut documents, mut chunks) = (HashMap::<String, Counted>::new(), 0u32);
        let mut offset = None;
        loop {
            let request = ScrollPoints {
                collection_name: self.alias.clone(),
                filter: Some(self.filter([])),
                offset,
                limit: Some(PAGE),
                with_payload: Some(vec![DOCUMENT, CHUNK, VERSION, CHUNKS].into()),
                ..Default::default()
            };
            let (points, next) = self.client.scroll(request).await?;
            for point in points {
                chunks += 1;
                let counted =
                    documents.entry(point.text(DOCUMENT).unwrap_or_default().to_owned()).or_default();
                let (version, expected) = (point.integer(VERSION).unwrap_or(-1), point.integer(CHUNKS));
                let expected = expected.and_then(|expected| u32::try_from(expected).ok()).unwrap_or(0);
                match counted.versions.iter_mut().find(|(known, ..)| *known == version) {
                    Some((_, found, _)) => *found += 1,
                    None => counted.versions.push((version, 1, expected)),
                }
            }
            offset = next;
            if offset.is_none() {
                break;
            }
        }
        let mut report = ConsistencyReport {
            documents: documents.len() as u32,
            chunks,
            deleted_chunks: 0,
            stale_entries: 0,
            problems: Vec::new(),
        };
        for (document, Counted { versions }) in documents {
            match versions[..] {
                [(_, found, expected)] if found == expected => {}
                [(_, found, expected)] => report.note(Inconsistency::Chunks { document, found, expected }),
                _ => report.note(Inconsistency::Versions { document, count: versions.len() }),
            }
        }
        Ok(report)
    }
}
