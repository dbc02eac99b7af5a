//! A Qdrant cluster for tests: nodes that speak gRPC, keep points in memory and answer exactly, with faults on command.
//!
//! The nodes of a [`Cluster`] share one state, as replicas do that are all in step. What a test does to one node ([`Node::inject`],
//! [`Node::kill`]) happens to that node alone. A killed node drops its connections without an answer, as a process does that gets SIGKILL.
//! Calls and fields that are not implemented are refused by name: a test never passes because something was ignored.
//!
//! Differences from a real cluster: searches compare everything exactly, quantisation and HNSW parameters change nothing, IDF is of the whole
//! collection (or of the corpus of the query) and not of a shard, and nothing is durable.

#![forbid(unsafe_code)]

mod faults;
mod filter;
mod indexes;
mod ranking;
mod service;
mod state;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use qdrant_client::qdrant::collections_server::CollectionsServer;
use qdrant_client::qdrant::points_server::PointsServer;
use qdrant_client::qdrant::qdrant_server::QdrantServer;
use tokio::sync::oneshot;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

pub use faults::{Calls, Fault, Rule};
pub use indexes::Points;
pub use service::Recorded;
pub use state::{ClusterState, Stored, set_dense};

use faults::Faults;
use service::Service;

/// The version that nodes report by default.
pub const VERSION: &str = "1.20.0";

/// Largest message that is read, in bytes: that of Qdrant's default.
const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// Nodes that share their points.
pub struct Cluster {
    /// The nodes, in the order of their addresses.
    pub nodes: Vec<Node>,
    shared: Arc<Shared>,
}

/// The state shared by the nodes.
#[derive(Default)]
struct Shared {
    state: Mutex<ClusterState>,
    /// The calls that were received, in order.
    recorded: Mutex<Vec<Recorded>>,
    /// How many changes are still carried out; `None` without a bound.
    writes_left: Mutex<Option<usize>>,
}

/// A server of a cluster.
pub struct Node {
    address: SocketAddr,
    service: Service,
    running: Mutex<Option<Running>>,
}

struct Running {
    /// Dropped to end the thread.
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Cluster {
    /// Starts nodes on free ports of 127.0.0.1. With an API key, calls without it are refused.
    ///
    /// # Errors
    /// When no port can be opened.
    pub fn start(nodes: usize, api_key: Option<&str>) -> io::Result<Cluster> {
        let shared = Arc::new(Shared::default());
        let start = |number| {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let service = Service::new(number, shared.clone(), api_key.map(str::to_owned));
            let node = Node { address: listener.local_addr()?, service, running: Mutex::new(None) };
            node.serve(listener)?;
            Ok(node)
        };
        let nodes = (0..nodes).map(start).collect::<io::Result<_>>()?;
        Ok(Cluster { nodes, shared })
    }

    /// The addresses of all nodes, `http://127.0.0.1:PORT`.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Node::url).collect()
    }

    /// The points and collections, to be looked at or changed behind the back of clients.
    pub fn state(&self) -> MutexGuard<'_, ClusterState> {
        lock(&self.shared.state)
    }

    /// Applies this number of further changes, and refuses all later ones as unavailable; `None` ends that.
    pub fn refuse_writes_after(&self, writes: Option<usize>) {
        *lock(&self.shared.writes_left) = writes;
    }

    /// Takes the calls that were received since the last time, in order.
    pub fn take_recorded(&self) -> Vec<Recorded> {
        std::mem::take(&mut lock(&self.shared.recorded))
    }
}

impl Node {
    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a rule for later calls; earlier rules come first.
    pub fn inject(&self, rule: Rule) {
        lock(&self.service.faults).add(rule);
    }

    /// Removes the rules that are left.
    pub fn heal(&self) {
        *lock(&self.service.faults) = Faults::default();
    }

    /// Sets the version that the node reports.
    pub fn set_version(&self, version: &str) {
        version.clone_into(&mut lock(&self.service.version));
    }

    /// Calls that the node has received, whatever became of them.
    pub fn calls(&self) -> usize {
        *lock(&self.service.calls)
    }

    /// Ends the node at once: its connections break.
    pub fn kill(&self) {
        let running = lock(&self.running).take();
        if let Some(Running { end, thread }) = running {
            drop(end);
            // it has nothing left to do
            drop(thread.join());
        }
    }

    /// Starts a killed node on its old port. What it is asked is answered from the state of the others.
    ///
    /// # Errors
    /// When the port was taken meanwhile.
    pub fn restart(&self) -> io::Result<()> {
        self.serve(TcpListener::bind(self.address)?)
    }

    fn serve(&self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let (end, ended) = oneshot::channel();
        let service = self.service.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("qdrant-mock".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = ended => {}
                    served = serve(listener, service) => drop(served),
                }
            });
            // the connections are tasks
            runtime.shutdown_background();
        })?;
        *lock(&self.running) = Some(Running { end, thread });
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn serve(listener: TcpListener, service: Service) -> Result<(), Box<dyn std::error::Error>> {
    let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener)?).with_nodelay(Some(true));
    let points = PointsServer::new(service.clone())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    Server::builder()
        .add_service(points)
        .add_service(CollectionsServer::new(service.clone()))
        .add_service(QdrantServer::new(service))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
