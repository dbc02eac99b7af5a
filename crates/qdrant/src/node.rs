//! A node of a cluster: its address and its connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use qdrant_client::qdrant::collections_client::CollectionsClient;
use qdrant_client::qdrant::points_client::PointsClient;
use qdrant_client::qdrant::qdrant_client::QdrantClient;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::SetupError;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How often an idle connection is asked whether it lives, and how long it may take to answer.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(2));
/// For how long other nodes are preferred to one that has failed.
const AVOIDED_FOR: Duration = Duration::from_secs(2);
/// Largest answer, in bytes: 10,000 points with their texts.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A connection that sends the API key.
pub(crate) type Connection = InterceptedService<Channel, ApiKey>;

/// Adds the API key to each call.
#[derive(Clone, Default)]
pub(crate) struct ApiKey(Option<MetadataValue<Ascii>>);

impl ApiKey {
    pub(crate) fn parse(key: Option<&str>) -> Result<ApiKey, SetupError> {
        let mut value = key.map(MetadataValue::try_from).transpose().map_err(|_| SetupError::KeyForm)?;
        // not to be seen in logs
        value.iter_mut().for_each(|value| value.set_sensitive(true));
        Ok(ApiKey(value))
    }
}

impl Interceptor for ApiKey {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(key) = &self.0 {
            request.metadata_mut().insert("api-key", key.clone());
        }
        Ok(request)
    }
}

/// A node.
pub(crate) struct Node {
    pub(crate) url: String,
    /// Connects when it is first used, and again when it breaks.
    channel: Channel,
    api_key: ApiKey,
    /// Until when others are preferred.
    avoided_until: Mutex<Option<Instant>>,
    /// Whether its last call was answered.
    answers: AtomicBool,
}

impl Node {
    pub(crate) fn new(url: &str, api_key: ApiKey, authorities: Option<&[u8]>) -> Result<Node, SetupError> {
        let unfit = |reason: String| SetupError::Address { url: url.to_owned(), reason };
        let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| unfit(error.to_string()))?;
        let is_tls = match endpoint.uri().scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => return Err(unfit("it does not begin with http:// or https://".to_owned())),
        };
        if endpoint.uri().port().is_none() {
            return Err(unfit("it names no port".to_owned()));
        }
        let mut endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1)
            .keep_alive_while_idle(true);
        if is_tls {
            let public = webpki_roots::TLS_SERVER_ROOTS.iter().cloned();
            let tls = ClientTlsConfig::new().trust_anchors(public);
            let tls = tls.ca_certificates(authorities.map(Certificate::from_pem));
            endpoint = endpoint.tls_config(tls).map_err(|error| unfit(error.to_string()))?;
        }
        let channel = endpoint.connect_lazy();
        Ok(Node {
            url: url.to_owned(),
            channel,
            api_key,
            avoided_until: Mutex::new(None),
            answers: AtomicBool::new(true),
        })
    }

    /// A call whose reply is read by a message of ours.
    pub(crate) fn unary<Q, R>(
        &self,
        path: &'static str,
        request: Request<Q>,
    ) -> impl Future<Output = Result<Response<R>, Status>> + Send + use<Q, R>
    where
        Q: prost::Message + 'static,
        R: prost::Message + Default + 'static,
    {
        let connection = InterceptedService::new(self.channel.clone(), self.api_key.clone());
        let mut client = Grpc::new(connection).max_decoding_message_size(ANSWER_BYTES_MAX);
        async move {
            let unready = |error| Status::unknown(format!("the connection is not ready: {error}"));
            client.ready().await.map_err(unready)?;
            client.unary(request, PathAndQuery::from_static(path), ProstCodec::default()).await
        }
    }

    pub(crate) fn points(&self) -> PointsClient<Connection> {
        PointsClient::with_interceptor(self.channel.clone(), self.api_key.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(crate) fn collections(&self) -> CollectionsClient<Connection> {
        CollectionsClient::with_interceptor(self.channel.clone(), self.api_key.clone())
    }

    pub(crate) fn service(&self) -> QdrantClient<Connection> {
        QdrantClient::with_interceptor(self.channel.clone(), self.api_key.clone())
    }

    /// Prefers other nodes for a while.
    pub(crate) fn avoid(&self) {
        self.answers.store(false, Ordering::Relaxed);
        *self.avoided() = Some(Instant::now() + AVOIDED_FOR);
    }

    /// Takes it as others again.
    pub(crate) fn trust(&self) {
        self.answers.store(true, Ordering::Relaxed);
        *self.avoided() = None;
    }

    pub(crate) fn answers(&self) -> bool {
        self.answers.load(Ordering::Relaxed)
    }

    pub(crate) fn is_avoided(&self) -> bool {
        self.avoided().is_some_and(|until| Instant::now() < until)
    }

    fn avoided(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.avoided_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
