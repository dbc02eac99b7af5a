//! The calls of a node.

mod collections;
mod points;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use qdrant_client::qdrant::qdrant_server::Qdrant;
use qdrant_client::qdrant::{
    CountPoints, DeletePoints, GetPoints, HealthCheckReply, HealthCheckRequest, QueryBatchPoints,
    ScrollPoints, UpdateStatus, UpsertPoints,
};
use tonic::{Request, Response, Status};

use crate::faults::{Fault, Faults, exhausted};
use crate::state::ClusterState;
use crate::{Shared, VERSION, lock};

/// Calls that are remembered.
const RECORDED_MAX: usize = 10_000;

/// A call that a node has received.
#[derive(Debug, Clone, PartialEq)]
pub enum Recorded {
    /// `upsert`
    Upsert(UpsertPoints),
    /// `delete`
    Delete(DeletePoints),
    /// `get`
    Get(GetPoints),
    /// `scroll`
    Scroll(ScrollPoints),
    /// `count`
    Count(CountPoints),
    /// `query_batch`
    QueryBatch(QueryBatchPoints),
    /// Another one, by its name.
    Other(&'static str),
}

/// The service of a node.
#[derive(Clone)]
pub(crate) struct Service {
    /// The position of its node in the cluster.
    number: usize,
    shared: Arc<Shared>,
    api_key: Option<String>,
    pub(crate) faults: Arc<Mutex<Faults>>,
    pub(crate) version: Arc<Mutex<String>>,
    pub(crate) calls: Arc<Mutex<usize>>,
}

type Answer<T> = Result<Response<T>, Status>;

impl Service {
    pub(crate) fn new(number: usize, shared: Arc<Shared>, api_key: Option<String>) -> Service {
        Service {
            number,
            shared,
            api_key,
            faults: Arc::default(),
            version: Arc::new(Mutex::new(VERSION.to_owned())),
            calls: Arc::default(),
        }
    }

    /// Checks the key, and counts and remembers the call.
    fn receive<T>(&self, request: &Request<T>, recorded: Recorded) -> Result<(), Status> {
        *lock(&self.calls) += 1;
        let all = &mut *lock(&self.shared.recorded);
        if all.len() < RECORDED_MAX {
            all.push(recorded);
        }
        let given = request.metadata().get("api-key").and_then(|key| key.to_str().ok());
        match &self.api_key {
            Some(key) if given != Some(key) => Err(Status::unauthenticated("Invalid API key or JWT")),
            Some(_) | None => Ok(()),
        }
    }

    /// Answers a call that changes nothing.
    async fn read<T, R>(
        &self,
        name: &'static str,
        request: Request<T>,
        recorded: Recorded,
        answer: impl Fn(&ClusterState, &T) -> Result<R, Status>,
    ) -> Answer<R> {
        self.receive(&request, recorded)?;
        let answer = || answer(&lock(&self.shared.state), request.get_ref()).map(Response::new);
        match self.fault(name, false) {
            None | Some(Fault::Again(_) | Fault::Status(_)) => answer(),
            Some(Fault::Slow(delay)) => {
                tokio::time::sleep(delay).await;
                answer()
            }
            Some(fault) => self.without_answer(fault).await,
        }
    }

    /// Carries out a change; `answer` is given the status that the reply has.
    async fn write<T: Clone + Send + Sync + 'static, R>(
        &self,
        name: &'static str,
        request: Request<T>,
        recorded: Recorded,
        change: fn(&mut ClusterState, &T) -> Result<(), Status>,
        answer: impl Fn(UpdateStatus) -> R,
    ) -> Answer<R> {
        self.receive(&request, recorded)?;
        match &mut *lock(&self.shared.writes_left) {
            Some(0) => return Err(Status::unavailable("no more changes are carried out")),
            Some(left) => *left -= 1,
            None => {}
        }
        let request = request.into_inner();
        let carry_out = || change(&mut lock(&self.shared.state), &request);
        let completed = || Ok(Response::new(answer(UpdateStatus::Completed)));
        match self.fault(name, true) {
            None => carry_out().and_then(|()| completed()),
            Some(Fault::Slow(delay)) => {
                tokio::time::sleep(delay).await;
                carry_out().and_then(|()| completed())
            }
            Some(Fault::Status(status)) => carry_out().map(|()| Response::new(answer(status))),
            Some(Fault::DoneThenFail(code, message)) => {
                carry_out()?;
                Err(Status::new(code, message))
            }
            Some(Fault::Again(delay)) => {
                carry_out()?;
                self.deliver_later(delay, request, change);
                completed()
            }
            Some(fault) => self.without_answer(fault).await,
        }
    }

    fn fault(&self, name: &str, is_write: bool) -> Option<Fault> {
        lock(&self.faults).take(name, is_write)
    }

    async fn without_answer<R>(&self, fault: Fault) -> Answer<R> {
        match fault {
            Fault::Refuse(code, message) | Fault::DoneThenFail(code, message) => {
                Err(Status::new(code, format!("{message} (node {})", self.number)))
            }
            Fault::Exhausted(retry_after_s) => Err(exhausted(retry_after_s)),
            Fault::Hang | Fault::Slow(_) | Fault::Again(_) | Fault::Status(_) => std::future::pending().await,
        }
    }

    /// On a thread of its own: the node may be killed meanwhile, the network delivers the change to another one.
    fn deliver_later<T: Send + 'static>(
        &self,
        delay: Duration,
        request: T,
        change: fn(&mut ClusterState, &T) -> Result<(), Status>,
    ) {
        let shared = self.shared.clone();
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            change(&mut lock(&shared.state), &request)
        });
    }
}

#[tonic::async_trait]
impl Qdrant for Service {
    async fn health_check(&self, request: Request<HealthCheckRequest>) -> Answer<HealthCheckReply> {
        let version = lock(&self.version).clone();
        self.read("health_check", request, Recorded::Other("health_check"), move |_, _| {
            let title = "qdrant - vector search engine".to_owned();
            Ok(HealthCheckReply { title, version: version.clone(), commit: None })
        })
        .await
    }
}

/// Defines calls that are refused. In the form of `async_trait`, which doesn't look into macros.
macro_rules! not_implemented {
    ($($name:ident($request:ident) -> $reply:ident;)*) => {$(
        fn $name<'s, 'async_trait>(
            &'s self,
            _: tonic::Request<qdrant_client::qdrant::$request>,
        ) -> std::pin::Pin<
            Box<
                dyn Future<
                        Output = Result<tonic::Response<qdrant_client::qdrant::$reply>, tonic::Status>,
                    > + Send
                    + 'async_trait,
            >,
        >
        where
            's: 'async_trait,
            Self: 'async_trait,
        {
            Box::pin(async {
                let message = concat!("this server does not implement ", stringify!($name));
                Err(tonic::Status::unimplemented(message))
            })
        }
    )*};
}
pub(crate) use not_implemented;
