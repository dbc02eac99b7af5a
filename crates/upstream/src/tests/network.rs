//! TLS, HTTP/2, proxies and redirects.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, Version};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use weir_telemetry::metrics::Metrics;

use super::{call, client, client_with, read_head, read_request, reply, server, settings};
use crate::UpstreamClient;
use crate::connect::tls;

/// A TLS server that answers with the HTTP version, and the settings of a client that trusts it.
pub(super) struct Tls {
    pub(super) acceptor: TlsAcceptor,
    trusting: ClientConfig,
}

impl Tls {
    pub(super) fn new(protocols: &[&str]) -> Tls {
        let names = ["127.0.0.1", "weir.example"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let certificate: CertificateDer<'static> = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone());
        let mut server = server
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        server.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let trusting = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Tls { acceptor: Arc::new(server).into(), trusting }
    }

    async fn serve(acceptor: TlsAcceptor, stream: TcpStream) {
        let Ok(stream) = acceptor.accept(stream).await else { return };
        let answer = service_fn(|request: http::Request<_>| async move {
            let version = if request.version() == Version::HTTP_2 { "2" } else { "1" };
            let key = request.headers()["authorization"].to_str().unwrap().to_owned();
            let host = request.uri().host().map(str::to_owned);
            let host = host.or_else(|| Some(request.headers().get("host")?.to_str().ok()?.to_owned()));
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(format!(
                "{version} {key} {}",
                host.unwrap()
            )))))
        });
        let served = auto::Builder::new(TokioExecutor::new());
        drop(served.serve_connection(TokioIo::new(stream), answer).await);
    }
}

pub(super) fn trusting(url: &str, tls: &Tls, proxies: &Matcher) -> UpstreamClient {
    UpstreamClient::with_network(settings(url), Metrics::new("test"), tls.trusting.clone(), proxies).unwrap()
}

#[tokio::test]
async fn https_uses_http_2_where_the_server_offers_it_and_checks_the_certificate() {
    let no_proxies = Matcher::builder().build();
    for (protocols, expected) in [(&["h2", "http/1.1"][..], "2"), (&["http/1.1"], "1"), (&[], "1")] {
        let tls = Tls::new(protocols);
        let acceptor = tls.acceptor.clone();
        let url = format!("https://{}", server(move |stream| Tls::serve(acceptor.clone(), stream)).await);
        let answer = call(&trusting(&url, &tls, &no_proxies)).await.unwrap();
        assert!(answer.starts_with(format!("{expected} Bearer sk-1 127.0.0.1").as_bytes()), "{answer:?}");
        let error = call(&client_with(settings(&url))).await.unwrap_err();
        assert!(error.to_string().contains("invalid peer certificate: UnknownIssuer"), "{error}");
    }
}

/// A proxy that answers `CONNECT` by `status`, reports its head, and hands the connection to `serve`.
async fn proxy<F>(
    status: u16,
    serve: impl Fn(TcpStream) -> F + Clone + Send + 'static,
) -> (String, mpsc::Receiver<String>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (heads, seen) = mpsc::channel(9);
    let address = server(move |mut stream| {
        let (heads, serve) = (heads.clone(), serve.clone());
        async move {
            heads.send(read_head(&mut stream).await.unwrap()).await.unwrap();
            stream.write_all(format!("HTTP/1.1 {status} Scripted\r\n\r\n").as_bytes()).await.unwrap();
            serve(stream).await;
        }
    })
    .await;
    (address, seen)
}

#[tokio::test]
async fn a_proxy_makes_a_tunnel_and_never_sees_the_key() {
    let tls = Tls::new(&["h2"]);
    let acceptor = tls.acceptor.clone();
    let (address, mut heads) = proxy(200, move |stream| Tls::serve(acceptor.clone(), stream)).await;
    let proxies = Matcher::builder().all(format!("http://user:password@{address}")).build();
    let answer = call(&trusting("https://weir.example", &tls, &proxies)).await.unwrap();
    assert_eq!(answer, "2 Bearer sk-1 weir.example");
    let head = heads.recv().await.unwrap();
    assert!(head.starts_with("CONNECT weir.example:443 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic dXNlcjpwYXNzd29yZA==\r\n"), "{head}");
    assert!(!head.contains("sk-1"), "{head}");
}

#[tokio::test]
async fn plain_http_goes_through_a_tunnel_too_and_a_refusal_of_the_proxy_is_named() {
    let answer_in_tunnel = |mut stream: TcpStream| async move {
        let (head, _) = read_request(&mut stream).await.unwrap();
        assert!(
            head.starts_with("POST /v1/path HTTP/1.1\r\n") && head.contains("host: weir.example"),
            "{head}"
        );
        stream.write_all(reply(200, "", "tunnelled").as_bytes()).await.unwrap();
    };
    let tls = Tls::new(&[]);
    let (address, mut heads) = proxy(200, answer_in_tunnel).await;
    let proxies = Matcher::builder().http(address).build();
    let answer = call(&trusting("http://weir.example/v1", &tls, &proxies)).await.unwrap();
    assert_eq!(answer, "tunnelled");
    assert!(heads.recv().await.unwrap().starts_with("CONNECT weir.example:80 HTTP/1.1\r\n"));
    let (address, _heads) = proxy(407, |_| async {}).await;
    let proxies = Matcher::builder().http(address).build();
    let error = call(&trusting("http://weir.example", &tls, &proxies)).await.unwrap_err();
    assert!(error.to_string().contains("proxy authorization required"), "{error}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (connected, mut connections) = mpsc::channel::<()>(1);
    let elsewhere = server(move |_| {
        let connected = connected.clone();
        async move { connected.send(()).await.unwrap() }
    })
    .await;
    let redirect = reply(307, &format!("location: http://{elsewhere}/path\r\n"), "");
    let error = call(&client(&super::replying(redirect).await)).await.unwrap_err();
    assert!(error.to_string().contains("redirections are not followed: correct its `url`"), "{error}");
    assert!(connections.try_recv().is_err());
    assert!(tls(None).is_ok());
}
