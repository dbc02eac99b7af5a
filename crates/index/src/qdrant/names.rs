//! Documents that a query names.

use weir_lexical::NamedDocument;
use weir_qdrant::api::{Filter, QueryPoints};
use weir_qdrant::{FoundPoint, has_any_text};

use super::conditions::first_chunks;
use super::points::{DOCUMENT, NAMES, TITLE};
use super::search::QdrantSearch;
use crate::Result;

/// Documents with equal names, and those whose names begin with the query, at most.
pub(super) const NAMED_MAX: usize = 64;
/// Documents of which these are taken, the shortest names first.
const NAMES_READ: u64 = 500;

impl QdrantSearch<'_> {
    /// The documents whose title or id is the query or begins with it: more are asked for if there may be more than were `found`.
    pub(super) async fn all_named(
        &self,
        keys: &[String; 2],
        mut found: Vec<FoundPoint>,
    ) -> Result<Vec<FoundPoint>> {
        if found.len() == NAMED_MAX {
            found = self.query(vec![self.named_query(keys, NAMES_READ)]).await?.remove(0);
        }
        if found.len() as u64 == NAMES_READ {
            // of many hits whose names begin with the query, the one whose name it is may not be among these
            let whole = self.named_query(&keys[..1], NAMED_MAX as u64);
            found.extend(self.query(vec![whole]).await?.remove(0));
        }
        Ok(found)
    }

    /// Without a vector points are given in the order of their ids.
    pub(super) fn named_query(&self, keys: &[String], limit: u64) -> QueryPoints {
        let keys = has_any_text(NAMES, keys.to_vec());
        let must = [self.selected.must.clone(), vec![keys, first_chunks()]].concat();
        let fields = [self.fields(), vec![TITLE]].concat();
        QueryPoints {
            filter: Some(Filter { must, ..Default::default() }),
            limit: Some(limit),
            with_payload: Some(fields.into()),
            ..Default::default()
        }
    }

    pub(super) fn named_of(&self, points: Vec<FoundPoint>) -> Vec<NamedDocument> {
        let Some(name) = self.request.name().and_then(weir_lexical::normalised_name) else {
            return Vec::new();
        };
        let share_of = |other: &str| {
            let other = weir_lexical::normalised_name(other)?;
            let rest = other.strip_prefix(&name)?;
            (rest.is_empty() || rest.starts_with(' ')).then_some(name.len() as f32 / other.len() as f32)
        };
        let mut named: Vec<NamedDocument> = self
            .take(points)
            .into_iter()
            .filter_map(|(chunk_id, point)| {
                let names = [point.text(DOCUMENT), point.text(TITLE)];
                let share = names.into_iter().flatten().filter_map(share_of).reduce(f32::max)?;
                Some(NamedDocument { chunk_id, share })
            })
            .collect();
        named.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.chunk_id.cmp(&b.chunk_id)));
        named.dedup_by_key(|named| named.chunk_id);
        named.truncate(NAMED_MAX);
        named
    }
}
