//! The calls on collections and aliases.

use qdrant_client::qdrant::alias_operations::Action;
use qdrant_client::qdrant::collections_server::Collections;
use qdrant_client::qdrant::{
    AliasDescription, ChangeAliases, CollectionConfig, CollectionDescription, CollectionExists,
    CollectionExistsRequest, CollectionExistsResponse, CollectionInfo, CollectionOperationResponse,
    CollectionParams, CollectionStatus, CreateCollection, DeleteCollection, GetCollectionInfoRequest,
    GetCollectionInfoResponse, ListAliasesRequest, ListAliasesResponse, ListCollectionsRequest,
    ListCollectionsResponse, PayloadSchemaInfo, UpdateStatus,
};
use tonic::{Request, Status};

use super::{Answer, Recorded, Service, not_implemented};
use crate::ClusterState;
use crate::state::Collection;

fn changed(_: UpdateStatus) -> CollectionOperationResponse {
    CollectionOperationResponse { result: true, time: 0.0 }
}

fn change_aliases(state: &mut ClusterState, request: &ChangeAliases) -> Result<(), Status> {
    // all or none
    let mut aliases = state.aliases.clone();
    for operation in &request.actions {
        match &operation.action {
            Some(Action::CreateAlias(create)) => {
                if !state.collections.contains_key(&create.collection_name) {
                    return Err(Status::not_found("Not found: the collection of the alias doesn't exist"));
                }
                aliases.insert(create.alias_name.clone(), create.collection_name.clone());
            }
            Some(Action::DeleteAlias(delete)) => drop(aliases.remove(&delete.alias_name)),
            Some(Action::RenameAlias(_)) | None => {
                return Err(Status::invalid_argument("this server does not implement renaming"));
            }
        }
    }
    state.aliases = aliases;
    Ok(())
}

fn info_of(collection: &Collection) -> CollectionInfo {
    let CreateCollection { hnsw_config, quantization_config, metadata, .. } = collection.config.clone();
    let params = CollectionParams {
        shard_number: collection.config.shard_number.unwrap_or(1),
        vectors_config: collection.config.vectors_config.clone(),
        replication_factor: collection.config.replication_factor,
        write_consistency_factor: collection.config.write_consistency_factor,
        sparse_vectors_config: collection.config.sparse_vectors_config.clone(),
        ..Default::default()
    };
    let config = CollectionConfig {
        params: Some(params),
        hnsw_config,
        quantization_config,
        metadata,
        ..Default::default()
    };
    let schema = |(field, params): (&String, &Option<_>)| {
        (field.clone(), PayloadSchemaInfo { params: params.clone(), ..Default::default() })
    };
    CollectionInfo {
        status: CollectionStatus::Green.into(),
        config: Some(config),
        payload_schema: collection.indexes.iter().map(schema).collect(),
        points_count: Some(collection.points.len() as u64),
        ..Default::default()
    }
}

#[tonic::async_trait]
impl Collections for Service {
    async fn get(&self, request: Request<GetCollectionInfoRequest>) -> Answer<GetCollectionInfoResponse> {
        self.read("get_collection", request, Recorded::Other("get_collection"), |state, request| {
            let info = info_of(state.collection(&request.collection_name)?);
            Ok(GetCollectionInfoResponse { result: Some(info), time: 0.0 })
        })
        .await
    }

    async fn list(&self, request: Request<ListCollectionsRequest>) -> Answer<ListCollectionsResponse> {
        self.read("list_collections", request, Recorded::Other("list_collections"), |state, _| {
            let names = state.collections.keys().cloned();
            let collections = names.map(|name| CollectionDescription { name }).collect();
            Ok(ListCollectionsResponse { collections, time: 0.0 })
        })
        .await
    }

    async fn create(&self, request: Request<CreateCollection>) -> Answer<CollectionOperationResponse> {
        let recorded = Recorded::Other("create_collection");
        let create = |state: &mut ClusterState, request: &CreateCollection| state.create(request.clone());
        self.write("create_collection", request, recorded, create, changed).await
    }

    async fn delete(&self, request: Request<DeleteCollection>) -> Answer<CollectionOperationResponse> {
        let recorded = Recorded::Other("delete_collection");
        let delete = |state: &mut ClusterState, request: &DeleteCollection| {
            state.collections.remove(&request.collection_name);
            Ok(())
        };
        self.write("delete_collection", request, recorded, delete, changed).await
    }

    async fn update_aliases(&self, request: Request<ChangeAliases>) -> Answer<CollectionOperationResponse> {
        let recorded = Recorded::Other("update_aliases");
        self.write("update_aliases", request, recorded, change_aliases, changed).await
    }

    async fn list_aliases(&self, request: Request<ListAliasesRequest>) -> Answer<ListAliasesResponse> {
        self.read("list_aliases", request, Recorded::Other("list_aliases"), |state, _| {
            let aliases = state.aliases.iter().map(|(alias, collection)| AliasDescription {
                alias_name: alias.clone(),
                collection_name: collection.clone(),
            });
            Ok(ListAliasesResponse { aliases: aliases.collect(), time: 0.0 })
        })
        .await
    }

    async fn collection_exists(
        &self,
        request: Request<CollectionExistsRequest>,
    ) -> Answer<CollectionExistsResponse> {
        self.read("collection_exists", request, Recorded::Other("collection_exists"), |state, request| {
            let exists = state.collection(&request.collection_name).is_ok();
            Ok(CollectionExistsResponse { result: Some(CollectionExists { exists }), time: 0.0 })
        })
        .await
    }

    not_implemented! {
        update(UpdateCollection) -> CollectionOperationResponse;
        list_collection_aliases(ListCollectionAliasesRequest) -> ListAliasesResponse;
        collection_cluster_info(CollectionClusterInfoRequest) -> CollectionClusterInfoResponse;
        update_collection_cluster_setup(UpdateCollectionClusterSetupRequest) -> UpdateCollectionClusterSetupResponse;
        create_shard_key(CreateShardKeyRequest) -> CreateShardKeyResponse;
        delete_shard_key(DeleteShardKeyRequest) -> DeleteShardKeyResponse;
        list_shard_keys(ListShardKeysRequest) -> ListShardKeysResponse;
    }
}
