//! How connections are made: TCP, through a proxy of the environment where there is one, then TLS for `https`.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::timeout::Timeout;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt as _};

/// A TCP connection to the upstream or to a proxy, with TLS if the proxy's address is `https`.
type InnerTransport = MaybeHttpsStream<TokioIo<TcpStream>>;
/// A connection to the upstream: the inner transport, with TLS if the upstream's address is `https`.
pub(crate) type Transport = MaybeHttpsStream<InnerTransport>;
/// Connects to an address: `http` and `https`, HTTP/2 where the server chooses it by ALPN.
pub(crate) type Connector = BoxCloneSyncService<Uri, Transport, BoxError>;

/// TLS that trusts the authorities of Mozilla's list, which are compiled in, and the certificates of a file.
pub(crate) fn tls(ca_file: Option<&Path>) -> Result<ClientConfig, BoxError> {
    let read = |file: &Path| {
        weir_trust::read_certificates(file)
            .map_err(|error| format!("`ca_file` can't be used: {}: {error}", file.display()))
    };
    let certificates = ca_file.map(read).transpose()?.unwrap_or_default();
    Ok(weir_trust::client_config(certificates)?)
}

/// The proxy for `url`: none for a loopback address. `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` have their usual meaning.
pub(crate) fn proxy_for(url: &Uri, proxies: &Matcher) -> Option<Intercept> {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    if host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
        return None;
    }
    let proxy = proxies.intercept(url)?;
    if !matches!(proxy.uri().scheme_str(), Some("http" | "https")) {
        tracing::warn!(proxy = %proxy.uri(), "only HTTP proxies are supported; connecting without a proxy");
        return None;
    }
    Some(proxy)
}

/// Every proxy is asked for a tunnel by `CONNECT`, for `http` too. `timeout` covers all steps: DNS, TCP, proxy and TLS.
pub(crate) fn connector(tls: ClientConfig, proxy: Option<Intercept>, timeout: Duration) -> Connector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let inner: BoxCloneSyncService<Uri, InnerTransport, BoxError> = match proxy {
        None => BoxCloneSyncService::new(tcp.map_response(MaybeHttpsStream::Http).map_err(BoxError::from)),
        Some(proxy) => {
            let to_proxy = HttpsConnectorBuilder::new().with_tls_config(tls.clone());
            let to_proxy = to_proxy.https_or_http().enable_http1().wrap_connector(tcp);
            let mut tunnel = Tunnel::new(proxy.uri().clone(), to_proxy);
            if let Some(credentials) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(credentials.clone());
            }
            BoxCloneSyncService::new(tunnel.map_err(BoxError::from))
        }
    };
    let https = HttpsConnectorBuilder::new().with_tls_config(tls);
    let https = https.https_or_http().enable_all_versions().wrap_connector(inner);
    BoxCloneSyncService::new(Timeout::new(https, timeout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_chosen_by_scheme_and_host() {
        let proxies = Matcher::builder()
            .http("http://plain.proxy:1")
            .https("http://user:password@secure.proxy:2")
            .no("internal.example, 10.0.0.0/8")
            .build();
        let check = |url: &str, expected: Option<&str>| {
            let proxy = proxy_for(&url.parse().unwrap(), &proxies);
            assert_eq!(proxy.map(|proxy| proxy.uri().to_string()).as_deref(), expected, "{url}");
        };
        check("http://weir.example/v1", Some("http://plain.proxy:1/"));
        check("https://weir.example", Some("http://secure.proxy:2/"));
        check("https://a.internal.example", None);
        check("http://10.0.0.1:8000", None);
        for loopback in ["http://127.0.0.1:8000", "http://localhost", "https://[::1]:9"] {
            check(loopback, None);
        }
        let socks = Matcher::builder().all("socks5://proxy:1").build();
        assert!(proxy_for(&Uri::from_static("http://weir.example"), &socks).is_none());
    }
}
