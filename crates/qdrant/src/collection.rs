//! The Qdrant collection that collections of one model share, behind an alias.

use std::collections::HashMap;

use qdrant_client::qdrant::alias_operations::Action;
use qdrant_client::qdrant::payload_index_params::IndexParams;
use qdrant_client::qdrant::quantization_config::Quantization;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    AliasOperations, ChangeAliases, CollectionInfo, CreateAlias, CreateCollection,
    CreateFieldIndexCollection, Distance, FieldType, GetCollectionInfoRequest, HnswConfigDiff,
    IntegerIndexParams, KeywordIndexParams, ListAliasesRequest, Modifier, PayloadIndexParams,
    QuantizationConfig, QuantizationType, ScalarQuantization, SparseIndexConfig, SparseVectorConfig,
    SparseVectorParams, VectorParams, VectorParamsMap, VectorsConfig,
};
use tonic::Code;

use crate::{Qdrant, QdrantError, Result, SetupError};

/// The name of the vectors with the embeddings.
pub const DENSE: &str = "dense";
/// The name of the vectors with the terms.
pub const SPARSE: &str = "terms";
/// The field of payloads that names the collection of a point.
pub const TENANT: &str = "c";
/// The field that names the document of a point.
pub const DOCUMENT: &str = "d";
/// The field with the number of the chunk.
pub const CHUNK: &str = "k";
/// The field with the number of chunks of the document.
pub const CHUNKS: &str = "z";
/// The field with the version of the document.
pub const VERSION: &str = "v";
/// The field with the metadata of the document.
pub const METADATA: &str = "m";
/// Other fields of payloads that are compared with texts.
pub const KEYWORDS: [&str; 5] = ["o", DOCUMENT, "p", "f", "n"];
/// Fields of payloads that are compared as integers.
const INTEGERS: [&str; 2] = [VERSION, CHUNK];

/// The separator of the alias and a number in the name of its collection.
const SEPARATOR: &str = "_";
/// Edges per point in the graph of each tenant. There is no graph over all tenants, because every search is in one.
const TENANT_EDGES: u64 = 16;
/// The share of values that int8 represents without clipping.
const QUANTILE: f32 = 0.99;

/// The form of a Qdrant collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// By which it is used; its own name has a number behind it.
    pub alias: String,
    /// Values per embedding; 0 without embeddings.
    pub dimension: u64,
    /// Shards, which can't be changed later.
    pub shards: u32,
    /// Copies of each shard.
    pub copies: u32,
    /// Copies that must have taken a change before it is acknowledged.
    pub copies_written: u32,
}

impl Layout {
    /// Its name when it is created.
    pub fn first_name(&self) -> String {
        format!("{}{SEPARATOR}1", self.alias)
    }

    /// Embeddings are compared by dot products: in int8, which stay in memory, and then exactly, on disk.
    #[allow(deprecated, reason = "`memory`, which replaces these fields, is unknown to 1.19")]
    fn creation(&self) -> CreateCollection {
        let int8 = ScalarQuantization {
            r#type: QuantizationType::Int8.into(),
            quantile: Some(QUANTILE),
            always_ram: Some(true),
            ..Default::default()
        };
        let params = VectorParams {
            size: self.dimension,
            distance: Distance::Dot.into(),
            on_disk: Some(true),
            quantization_config: Some(QuantizationConfig { quantization: Some(Quantization::Scalar(int8)) }),
            ..Default::default()
        };
        let dense = (self.dimension > 0).then(|| (DENSE.to_owned(), params));
        let map = VectorParamsMap { map: dense.into_iter().collect() };
        let sparse = SparseVectorParams {
            index: Some(SparseIndexConfig { on_disk: Some(false), ..Default::default() }),
            modifier: Some(Modifier::Idf.into()),
        };
        CreateCollection {
            collection_name: self.first_name(),
            hnsw_config: Some(HnswConfigDiff {
                m: Some(0),
                payload_m: Some(TENANT_EDGES),
                ..Default::default()
            }),
            shard_number: Some(self.shards),
            replication_factor: Some(self.copies),
            write_consistency_factor: Some(self.copies_written),
            vectors_config: Some(VectorsConfig { config: Some(Config::ParamsMap(map)) }),
            sparse_vectors_config: Some(SparseVectorConfig {
                map: HashMap::from([(SPARSE.to_owned(), sparse)]),
            }),
            ..Default::default()
        }
    }

    /// Compares what exists with what is needed.
    fn check(&self, collection: &str, info: &CollectionInfo) -> Result<(), SetupError> {
        let different = |actual: String, expected: String| {
            let collection = collection.to_owned();
            Err(SetupError::Different { collection, actual, expected })
        };
        let params = info.config.as_ref().and_then(|config| config.params.as_ref());
        let vectors = params.and_then(|params| params.vectors_config.as_ref()?.config.as_ref());
        let dense = match vectors {
            Some(Config::ParamsMap(map)) => map.map.get(DENSE),
            Some(Config::Params(_)) | None => None,
        };
        match dense {
            Some(dense) if self.dimension == 0 => {
                return different(format!("embeddings of {} values", dense.size), "none".to_owned());
            }
            Some(dense) if dense.size != self.dimension => {
                return different(format!("embeddings of {} values", dense.size), self.dimension.to_string());
            }
            Some(dense) if dense.distance != Distance::Dot as i32 => {
                return different(format!("the distance {:?}", dense.distance()), "Dot".to_owned());
            }
            None if self.dimension > 0 => {
                return different(
                    format!("no vectors of the name `{DENSE}`"),
                    format!("some of {} values", self.dimension),
                );
            }
            Some(_) | None => {}
        }
        let sparse = params.and_then(|params| params.sparse_vectors_config.as_ref()?.map.get(SPARSE));
        match sparse.map(SparseVectorParams::modifier) {
            Some(Modifier::Idf) => Ok(()),
            Some(Modifier::None) => different("no modifier of terms".to_owned(), "`idf`".to_owned()),
            None => different(format!("no sparse vectors of the name `{SPARSE}`"), "these".to_owned()),
        }
    }
}

impl Qdrant {
    /// Creates the collection and its alias if they don't exist, and checks them otherwise. Several gateways may do so at once.
    ///
    /// # Errors
    /// When the alias is of something else, or the collection has another form; those of calls.
    pub async fn ensure(&self, layout: &Layout) -> Result<(), SetupError> {
        let collection = match self.target_of(&layout.alias).await? {
            Some(collection) => {
                let number =
                    collection.strip_prefix(&layout.alias).and_then(|rest| rest.strip_prefix(SEPARATOR));
                if number.and_then(|number| number.parse::<u32>().ok()).is_none() {
                    return Err(SetupError::AliasElsewhere { alias: layout.alias.clone(), collection });
                }
                collection
            }
            None => {
                self.create(layout).await?;
                layout.first_name()
            }
        };
        layout.check(&collection, &self.info(&collection).await?)
    }

    async fn create(&self, layout: &Layout) -> Result<()> {
        let name = layout.first_name();
        self.create_collection(layout.creation()).await?;
        let tenant = KeywordIndexParams { is_tenant: Some(true), ..Default::default() };
        self.index(&name, TENANT, FieldType::Keyword, IndexParams::KeywordIndexParams(tenant)).await?;
        for field in KEYWORDS {
            let params = IndexParams::KeywordIndexParams(KeywordIndexParams::default());
            self.index(&name, field, FieldType::Keyword, params).await?;
        }
        for field in INTEGERS {
            let params = IntegerIndexParams { lookup: Some(true), range: Some(true), ..Default::default() };
            self.index(&name, field, FieldType::Integer, IndexParams::IntegerIndexParams(params)).await?;
        }
        self.point_alias(&layout.alias, &name).await
    }

    /// The aliases that begin with a text.
    ///
    /// # Errors
    /// Those of calls.
    pub async fn aliases(&self, prefix: &str) -> Result<Vec<String>> {
        let all = self.all_aliases().await?.into_iter();
        Ok(all.map(|(alias, _)| alias).filter(|alias| alias.starts_with(prefix)).collect())
    }

    /// The collection of an alias.
    async fn target_of(&self, alias: &str) -> Result<Option<String>> {
        let found = self.all_aliases().await?.into_iter().find(|(name, _)| name == alias);
        Ok(found.map(|(_, collection)| collection))
    }

    /// Aliases and their collections.
    async fn all_aliases(&self) -> Result<Vec<(String, String)>> {
        let answer = self
            .read("list_aliases", ListAliasesRequest {}, |node, request| {
                let mut collections = node.collections();
                async move { collections.list_aliases(request).await }
            })
            .await?;
        Ok(answer.aliases.into_iter().map(|one| (one.alias_name, one.collection_name)).collect())
    }

    async fn info(&self, collection: &str) -> Result<CollectionInfo> {
        const CALL: &str = "get_collection";
        let request = GetCollectionInfoRequest { collection_name: collection.to_owned() };
        let answer = self
            .read(CALL, request, |node, request| {
                let mut collections = node.collections();
                async move { collections.get(request).await }
            })
            .await?;
        answer.result.ok_or(QdrantError::Malformed { call: CALL, what: "result" })
    }

    async fn create_collection(&self, request: CreateCollection) -> Result<()> {
        let created = self
            .write(
                "create_collection",
                request,
                |node, request| {
                    let mut collections = node.collections();
                    async move { collections.create(request).await }
                },
                |answer| (!answer.result).then(|| "it was not created".to_owned()),
            )
            .await;
        match created {
            // by another gateway, or by an attempt whose answer was lost
            Err(QdrantError::Refused { code: Code::AlreadyExists, .. }) => Ok(()),
            Err(QdrantError::Refused { message, .. }) if message.contains("already exists") => Ok(()),
            created => created.map(drop),
        }
    }

    async fn index(&self, collection: &str, field: &str, kind: FieldType, params: IndexParams) -> Result<()> {
        let request = CreateFieldIndexCollection {
            collection_name: collection.to_owned(),
            wait: Some(true),
            field_name: field.to_owned(),
            field_type: Some(kind.into()),
            field_index_params: Some(PayloadIndexParams { index_params: Some(params) }),
            ..Default::default()
        };
        let send = |node: &crate::node::Node, request| {
            let mut points = node.points();
            async move { points.create_field_index(request).await }
        };
        self.write("create_field_index", request, send, |_| None).await.map(drop)
    }

    async fn point_alias(&self, alias: &str, collection: &str) -> Result<()> {
        let create = CreateAlias { collection_name: collection.to_owned(), alias_name: alias.to_owned() };
        let actions = vec![AliasOperations { action: Some(Action::CreateAlias(create)) }];
        let request = ChangeAliases { actions, ..Default::default() };
        let send = |node: &crate::node::Node, request| {
            let mut collections = node.collections();
            async move { collections.update_aliases(request).await }
        };
        let incomplete = |answer: &crate::api::CollectionOperationResponse| {
            (!answer.result).then(|| "the alias was not changed".to_owned())
        };
        self.write("update_aliases", request, send, incomplete).await.map(drop)
    }
}
