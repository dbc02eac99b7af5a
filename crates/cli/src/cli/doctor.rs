//! `weir doctor`: the full check of a store and of the original files beside it, and whether its Qdrant cluster and Redis can be used.

use clap::Args;
use serde_json::json;
use weir_config::Flags;
use weir_config::table::{QdrantCluster, Redis};
use weir_qdrant::{Checked, SetupError};
use weir_retrieval::verify_originals;
use weir_store::{Location, Store, VerifyReport};

use super::context::Context;
use super::failure::{Failure, Result};
use crate::redis::RedisUnusable;
use crate::store_location::store_location;
use crate::{qdrant, redis};

/// The arguments of `weir doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// The folder of the database and the indexes; also WEIR_DATA_DIR [default: the database of `store.url`, or ./weir-data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Reads and checks every row of the store and every original file, and names those that are damaged.
///
/// # Errors
/// When the store cannot be read, and when something in it is damaged.
pub async fn run(arguments: &DoctorArguments, context: Context<'_>) -> Result<()> {
    let flags = Flags { data_dir: arguments.data_dir.clone(), ..Flags::default() };
    let config = context.load(flags)?;
    let folder = &config.server.data_dir;
    let is_database = config.store.url.is_some() && arguments.data_dir.is_none();
    let (location, shown) = match is_database {
        true => (store_location(&config)?, "the PostgreSQL database".to_owned()),
        false => (Location::data_dir(folder), folder.display().to_string()),
    };
    let report = Store::verify_at(&location).await?;
    let originals = verify_originals(folder, &location).await?;
    let mut problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    problems.extend(originals.problems);
    let cluster = check_cluster(&config.qdrant).await;
    problems.extend(cluster.iter().flat_map(|cluster| cluster.problems.clone()));
    let redis = check_redis(&config.redis).await;
    problems.extend(redis.iter().filter_map(|answer| answer.clone().err()));
    let originals = originals.files;
    let VerifyReport { collections, documents, operations, chunks, embeddings, .. } = report;
    if arguments.json {
        let rows = json!({"collections": collections, "documents": documents, "operations": operations,
            "chunks": chunks, "embeddings": embeddings, "originals": originals});
        let mut report = json!({"rows": rows, "problems": problems});
        if let Some(Cluster { nodes, .. }) = &cluster {
            let node = |(url, version): &(String, String)| json!({"url": url, "version": version});
            report["qdrant"] = nodes.iter().map(node).collect();
        }
        if let Some(answer) = &redis {
            report["redis"] = json!({"answers": answer.is_ok()});
        }
        writeln!(context.out, "{report}")?;
    } else {
        writeln!(
            context.out,
            "{shown}: {collections} collections, {documents} documents, {operations} operations, {chunks} chunks, {embeddings} embeddings, {originals} original files"
        )?;
        if let Some(Cluster { nodes, .. }) = &cluster {
            let shown = nodes.iter().map(|(url, version)| format!("{url} ({version})"));
            let shown = shown.collect::<Vec<_>>().join(", ");
            writeln!(
                context.out,
                "Qdrant: {} nodes answer{}{shown}",
                nodes.len(),
                if nodes.is_empty() { "" } else { ": " }
            )?;
        }
        if let Some(answer) = &redis {
            writeln!(context.out, "Redis: {}", if answer.is_ok() { "answers" } else { "can't be used" })?;
        }
        problems.iter().try_for_each(|problem| writeln!(context.out, "  {problem}"))?;
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::Damaged(problems.len())) }
}

/// The state of a Qdrant cluster.
#[derive(Default)]
struct Cluster {
    /// Address and version of each node that can be used.
    nodes: Vec<(String, String)>,
    problems: Vec<String>,
}

/// Asks the nodes of the Qdrant cluster; `None` if there is none.
async fn check_cluster(settings: &QdrantCluster) -> Option<Cluster> {
    let failed = |error: SetupError| Cluster { problems: vec![error.to_string()], ..Cluster::default() };
    let client = match qdrant::client(settings, None) {
        Ok(client) => client?,
        Err(error) => return Some(failed(error)),
    };
    Some(match client.check().await {
        Ok(Checked { nodes, missing }) => {
            let problem = |(url, reason)| {
                format!(
                    "the node `{url}` of `qdrant.urls` does not answer ({reason}); start it, or remove its address"
                )
            };
            Cluster { nodes, problems: missing.into_iter().map(problem).collect() }
        }
        Err(error) => failed(error),
    })
}

/// Connects to Redis; `None` if there is none.
async fn check_redis(settings: &Redis) -> Option<std::result::Result<(), String>> {
    let unusable = |error: RedisUnusable| match &error {
        RedisUnusable::Address(reason) => format!("{error}: {reason}"),
        RedisUnusable::Refused(_) | RedisUnusable::Untrusted(_) => error.to_string(),
    };
    let shared = match redis::shared_limits(settings) {
        Ok(shared) => shared?,
        Err(error) => return Some(Err(unusable(error.into()))),
    };
    Some(shared.connect().await.map_err(|error| match RedisUnusable::of(error) {
        Ok(error) => unusable(error),
        Err(error) => format!(
            "Redis of `redis.url` can't be reached ({error}); start it, or correct the address (`rediss://` for TLS). Until then, each gateway counts its share of the limits"
        ),
    }))
}
