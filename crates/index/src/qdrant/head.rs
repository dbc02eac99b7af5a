//! The point that says what is applied. It is no point of the tenant: no search finds it.

use std::collections::HashMap;

use weir_qdrant::api::{Condition, Filter, PointStruct, Range, Value, Vectors, WriteOrderingType};
use weir_qdrant::api::{NamedVectors, vectors::VectorsOptions};
use weir_qdrant::{FoundPoint, TENANT, Uuid, point_id};
use weir_text::ANALYSER_VERSION;

use super::Shared;
use super::points::{OWNER, id, integer};
use crate::{EngineSettings, HistoryPoint, IndexError, RebuildReason, Result};

/// Nodes that are asked what is applied before it is believed to be less than it was.
const HEAD_READS: usize = 3;

/// The version of the payloads. Points of another version are made again.
const FORMAT: u64 = 1;

/// The suffix of a collection's tenant in that of its head.
pub(super) const HEAD: &str = "/head";

const APPLIED: &str = "applied";
const OPERATION: &str = "operation";
const IDENTITY: &str = "identity";
const FORMAT_FIELD: &str = "format";
const ANALYSER: &str = "analyser";
const LANGUAGE: &str = "language";

/// The applied sequence and the form of the points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) applied_seq: u64,
    pub(super) read_to: Option<HistoryPoint>,
    format: u64,
    analyser: u64,
    language: String,
}

impl Head {
    /// Why what the cluster has can't be used.
    ///
    /// # Errors
    /// When a newer version has written it, whose gateways may still use it.
    pub(super) fn unfit(&self, settings: &EngineSettings) -> Result<Option<RebuildReason>> {
        if self.format > FORMAT || self.analyser > u64::from(ANALYSER_VERSION) {
            let reason = "its points are of a newer version of weir; start that version".to_owned();
            return Err(IndexError::Engine { reason });
        }
        if self.format != FORMAT {
            return Ok(Some(RebuildReason::Format(self.format as u32)));
        }
        if self.analyser != u64::from(ANALYSER_VERSION) {
            return Ok(Some(RebuildReason::Analyser(self.analyser as u32)));
        }
        let is_other = self.language != settings.language.name();
        Ok(is_other.then(|| RebuildReason::Language(self.language.clone())))
    }

    fn of(point: &FoundPoint) -> Head {
        let number = |field| point.integer(field).and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
        let operation = point.integer(OPERATION).and_then(|operation| u64::try_from(operation).ok());
        let read_to = operation.zip(point.integer(IDENTITY));
        Head {
            applied_seq: number(APPLIED),
            read_to: read_to.map(|(operation, identity)| HistoryPoint { operation, identity }),
            format: number(FORMAT_FIELD),
            analyser: number(ANALYSER),
            language: point.text(LANGUAGE).unwrap_or_default().to_owned(),
        }
    }
}

impl Shared {
    /// The tenant of the head.
    pub(super) fn head_tenant(&self) -> String {
        format!("{}{HEAD}", self.tenant.name)
    }

    fn head_id(&self) -> Uuid {
        point_id(&self.head_tenant(), "", 0)
    }

    /// The head; `None` if nothing is applied. A Qdrant collection or an alias that is gone is made again.
    pub(super) async fn read_head(&self) -> Result<Option<Head>> {
        let Some(points) = self.client.get_if_there(&self.alias, self.head_id()).await? else {
            self.client.ensure(&self.layout).await?;
            return Ok(None);
        };
        let tenant = self.head_tenant();
        Ok(points.first().filter(|point| point.text(TENANT) == Some(&tenant)).map(Head::of))
    }

    /// The head, if it can be used. A node that lags behind the others may not know it yet: as long as it is less than `known`,
    /// others are asked.
    pub(super) async fn current_head(&self, known: u64) -> Result<Option<Head>> {
        let mut found: Option<Head> = None;
        for _ in 0..HEAD_READS {
            let read = self.read_head().await?;
            if read.as_ref().map(|head| head.applied_seq) > found.as_ref().map(|head| head.applied_seq) {
                found = read;
            }
            if found.as_ref().is_some_and(|head| head.applied_seq >= known) {
                break;
            }
        }
        match found {
            Some(head) if head.unfit(&self.settings)?.is_none() => Ok(Some(head)),
            Some(_) | None => Ok(None),
        }
    }

    /// Records what is applied, unless more is.
    pub(super) async fn write_head(&self, applied_seq: u64, read_to: Option<HistoryPoint>) -> Result<()> {
        let fields: [(&str, Value); 6] = [
            (TENANT, self.head_tenant().into()),
            (OWNER, self.tenant.owner.as_str().into()),
            (APPLIED, integer(applied_seq)),
            (FORMAT_FIELD, integer(FORMAT)),
            (ANALYSER, integer(u64::from(ANALYSER_VERSION))),
            (LANGUAGE, self.settings.language.name().into()),
        ];
        let mut payload: HashMap<String, Value> =
            fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
        if let Some(HistoryPoint { operation, identity }) = read_to {
            payload.insert(OPERATION.to_owned(), integer(operation));
            payload.insert(IDENTITY.to_owned(), identity.into());
        }
        let none = NamedVectors { vectors: HashMap::new() };
        let vectors = Some(Vectors { vectors_options: Some(VectorsOptions::Vectors(none)) });
        let point = PointStruct { id: Some(id(self.head_id())), payload, vectors };
        let range = Range { lte: Some(applied_seq as f64), ..Default::default() };
        let earlier = Filter::must([Condition::range(APPLIED, range)]);
        let ordering = WriteOrderingType::Medium;
        self.client.upsert(&self.alias, vec![point], Some(earlier), ordering).await
    }
}
