//! The Qdrant cluster of a configuration.

use std::sync::Arc;
use std::time::Duration;

use weir_config::table::QdrantCluster;
use weir_index::{QdrantEngines, QdrantPlacement};
use weir_qdrant::{Checked, EndedCall, Observer, Outcome, Qdrant, QdrantSettings, SetupError};
use weir_telemetry::metrics::Metrics;

/// A client of the cluster; `None` if none is configured.
///
/// # Errors
/// When an address, the file of certificates or the API key can't be used.
pub(crate) fn client(
    settings: &QdrantCluster,
    observer: Option<Observer>,
) -> Result<Option<Qdrant>, SetupError> {
    let urls: Vec<String> = settings.nodes().map(str::to_owned).collect();
    if urls.is_empty() {
        return Ok(None);
    }
    let key = settings.api_key.as_ref().and_then(|key| key.secret().ok());
    let settings = QdrantSettings {
        urls,
        api_key: key.map(|key| key.reveal().to_owned()),
        ca_file: Some(settings.ca_file.as_str()).filter(|file| !file.is_empty()).map(Into::into),
        read_timeout: Duration::from_millis(settings.read_timeout_ms),
        write_timeout: Duration::from_millis(settings.write_timeout_ms),
    };
    Qdrant::observed(&settings, observer).map(Some)
}

/// The engines of the cluster, which is checked: a cluster that does not answer may do so later, and one that can't be used as it is stops the start.
///
/// # Errors
/// [`SetupError`], but for `Unreachable`.
pub(crate) async fn engines(
    settings: &QdrantCluster,
    service: String,
    metrics: &Metrics,
) -> Result<Option<QdrantEngines>, SetupError> {
    let metrics = metrics.clone();
    let observer: Observer = Arc::new(move |call: EndedCall| {
        let result = match call.outcome {
            Outcome::Done => "done",
            Outcome::Refused => "refused",
            Outcome::Unavailable => "unavailable",
        };
        metrics.qdrant_call(call.name, result, call.took, call.retries);
    });
    let Some(client) = client(settings, Some(observer))? else { return Ok(None) };
    match client.check().await {
        Ok(Checked { nodes, missing }) => {
            for (node, reason) in missing {
                tracing::warn!(
                    node,
                    reason,
                    "a node of `qdrant.urls` does not answer: it is left out until it does; start it, or remove its address"
                );
            }
            let versions: Vec<&str> = nodes.iter().map(|(_, version)| version.as_str()).collect();
            tracing::info!(nodes = nodes.len(), versions = versions.join(", "), "a Qdrant cluster is in use");
        }
        Err(error @ SetupError::Unreachable { .. }) => {
            tracing::error!(%error, "collections of the Qdrant cluster are unavailable until it answers");
        }
        Err(error) => return Err(error),
    }
    let placement = QdrantPlacement {
        prefix: settings.prefix.clone(),
        service,
        shards: settings.shards,
        copies: settings.copies,
        copies_written: settings.copies_written,
    };
    Ok(Some(QdrantEngines::new(client, placement, settings.cache_bytes_max)))
}
