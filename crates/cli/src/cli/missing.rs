//! Errors about a collection that does not exist, with the name that was probably meant.

use weir_api::{ErrorCode, similar_names};
use weir_client::{Client, ClientError};

use super::failure::Failure;

/// The failure of a call that names `collection`. When there is none of this name, the nearest name is looked up.
pub(super) async fn with_similar_name(client: &Client, collection: &str, error: ClientError) -> Failure {
    let ClientError::Refused { code: ErrorCode::CollectionNotFound, message } = &error else {
        return error.into();
    };
    match similar_name(client, collection).await {
        Some(similar) => Failure::NoCollection { message: message.clone(), similar },
        None => error.into(),
    }
}

/// The collection with the nearest name, if one is near. The list is a courtesy: without it there is no suggestion.
async fn similar_name(client: &Client, collection: &str) -> Option<String> {
    let list = client.collections().await.ok()?.parse().ok()?;
    let names: Vec<&str> = list.data.iter().map(|collection| collection.name.as_str()).collect();
    similar_names(collection, &names).first().map(|name| (*name).to_owned())
}
