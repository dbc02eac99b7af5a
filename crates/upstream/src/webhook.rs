//! Webhooks: signed calls to addresses that callers name.
//!
//! They are signed as Standard Webhooks 1.0 (<https://www.standardwebhooks.com>) says: HMAC-SHA256 of id, time and body. Unless a setting
//! allows it, only public addresses are called. What is checked is the address that is connected to, not the name, so that a name whose
//! address changes after the check gains nothing. Redirects are not followed, proxies are not used, and connections are not reused.

use std::fmt;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{Request, StatusCode, Uri, header};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use sha2::Sha256;
use tower::{BoxError, Service};

use crate::connect;

/// Most bytes of an address.
const URL_BYTES_MAX: usize = 2_048;

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The secret that sender and receivers share.
#[derive(Clone)]
pub struct WebhookSecret(Vec<u8>);

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl WebhookSecret {
    /// Parses base64, which may follow `whsec_`. `None` if it is not.
    pub fn parse(text: &str) -> Option<WebhookSecret> {
        BASE64.decode(text.strip_prefix("whsec_").unwrap_or(text)).ok().map(WebhookSecret)
    }

    /// The signature of a message, as in the header `webhook-signature`. `timestamp` is in unix seconds.
    pub fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let Ok(mut hmac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            unreachable!("HMAC takes keys of every length")
        };
        hmac.update(format!("{id}.{timestamp}.").as_bytes());
        hmac.update(body);
        format!("v1,{}", BASE64.encode(hmac.finalize().into_bytes()))
    }
}

/// The address of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookUrl(Uri);

impl WebhookUrl {
    /// Parses an address. An address that is written in numbers is refused here if it is not public, and a name when it is resolved.
    ///
    /// # Errors
    /// The problem, as the end of a sentence.
    pub fn parse(text: &str, allow_private: bool) -> Result<WebhookUrl, &'static str> {
        if text.len() > URL_BYTES_MAX {
            return Err("has more than 2048 bytes");
        }
        let uri: Uri = text.parse().map_err(|_| "is not a URL")?;
        if !matches!(uri.scheme_str(), Some("https" | "http")) {
            return Err("does not begin with `https://` or `http://`");
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err("has no host");
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("has a user name or a password; receivers check the signature instead");
        }
        let url = WebhookUrl(uri);
        if !allow_private && url.ip().is_some_and(|ip| !is_public(ip)) {
            return Err(
                "is not public; the operator of the gateway can allow private addresses with `webhooks.allow_private_addresses`",
            );
        }
        Ok(url)
    }

    /// Scheme, host and port, without what can be secret.
    pub fn origin(&self) -> String {
        let host = self.0.host().unwrap_or_default().to_ascii_lowercase();
        let scheme = self.0.scheme_str().unwrap_or_default();
        let port = self.0.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        format!("{scheme}://{host}:{port}")
    }

    fn ip(&self) -> Option<IpAddr> {
        self.0.host()?.trim_matches(['[', ']']).parse().ok()
    }
}

/// Why a webhook was not delivered. The messages do not repeat the address.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The address, or what its name resolves to, is not public.
    #[error("the receiver's address is not public; `webhooks.allow_private_addresses` allows it")]
    PrivateAddress,
    /// The receiver was not reached, or it is not HTTP.
    #[error("the receiver could not be called: {0}")]
    Connect(String),
    /// The receiver replied with another status than 200 to 299.
    #[error("the receiver replied with status {}", .0.as_u16())]
    Status(StatusCode),
    /// It did not reply in time.
    #[error("the receiver did not reply within {} ms", .0.as_millis())]
    Timeout(Duration),
}

impl WebhookError {
    /// Whether trying again is of no use: the receiver says that it is gone for good, or may not be called.
    pub fn is_final(&self) -> bool {
        matches!(self, WebhookError::PrivateAddress | WebhookError::Status(StatusCode::GONE))
    }
}

/// Sends webhooks.
#[derive(Clone)]
pub struct WebhookClient {
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    secret: WebhookSecret,
    allow_private: bool,
    timeout: Duration,
}

impl WebhookClient {
    /// A client whose attempts take at most `timeout` each.
    ///
    /// # Errors
    /// The authorities that are compiled in can't be used.
    pub fn new(
        secret: WebhookSecret,
        allow_private: bool,
        timeout: Duration,
    ) -> Result<WebhookClient, BoxError> {
        let mut tcp = HttpConnector::new_with_resolver(Resolver { allow_private });
        tcp.enforce_http(false);
        let https = HttpsConnectorBuilder::new().with_tls_config(connect::tls(None)?);
        let https = https.https_or_http().enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(https);
        Ok(WebhookClient { client, secret, allow_private, timeout })
    }

    /// Sends JSON. `id` is the same for every attempt of a message, by which receivers recognise what they have; `timestamp` is the present
    /// time in unix seconds.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub async fn send(
        &self,
        url: &WebhookUrl,
        id: &str,
        timestamp: u64,
        body: Vec<u8>,
    ) -> Result<(), WebhookError> {
        if !self.allow_private && url.ip().is_some_and(|ip| !is_public(ip)) {
            return Err(WebhookError::PrivateAddress);
        }
        let request = Request::post(url.0.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("weir/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", self.secret.sign(id, timestamp, &body))
            .body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| WebhookError::Connect(error.to_string()))?;
        let reply = tokio::time::timeout(self.timeout, self.client.request(request)).await;
        let reply = reply.map_err(|_| WebhookError::Timeout(self.timeout))?;
        let status = reply.map_err(|error| failure(&error))?.status();
        if status.is_success() { Ok(()) } else { Err(WebhookError::Status(status)) }
    }
}

/// The innermost cause, which is that of the operating system, of TLS or of the resolver.
fn failure(error: &(dyn std::error::Error + 'static)) -> WebhookError {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<NotPublic>() {
        Some(NotPublic) => WebhookError::PrivateAddress,
        None => WebhookError::Connect(cause.to_string()),
    }
}

/// A name has no public address.
#[derive(Debug, thiserror::Error)]
#[error("it has no public address")]
struct NotPublic;

/// Resolves names, to their public addresses unless others are allowed.
#[derive(Clone)]
struct Resolver {
    allow_private: bool,
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| allow_private || is_public(address.ip())).collect();
            if allowed.is_empty() { Err(NotPublic.into()) } else { Ok(allowed.into_iter()) }
        })
    }
}

/// Whether an address belongs to the public internet. Addresses that contain an IPv4 address are judged by it.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

/// Source: the IANA registry of special-purpose addresses, RFC 6890.
fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (b == 18 || b == 19))
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99);
    !is_special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let segments = ip.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // mapped; translated by NAT64; 6to4
        [0, 0, 0, 0, 0, 0xffff, high, low] => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        // Teredo and others that are not for hosts; documentation
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn a_message_is_signed_as_the_specification_says() {
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature =
            secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert!(WebhookSecret::parse("whsec_?").is_none());
        assert_eq!(format!("{secret:?}"), "[secret]");
    }

    #[test]
    fn addresses_that_are_not_public_are_recognised() {
        let public =
            ["8.8.8.8", "100.63.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "2002:808:808::1"];
        for ip in public {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
        let others = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.8.8.8",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::1",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        for ip in others {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn addresses_are_checked_when_they_are_given() {
        let check = |url: &str, expected: Result<&str, &str>| {
            let parsed = WebhookUrl::parse(url, false);
            let seen = parsed.as_ref().map(WebhookUrl::origin);
            match (seen, expected) {
                (Ok(origin), Ok(expected)) => assert_eq!(origin, expected, "{url}"),
                (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{url}: {reason}"),
                (seen, _) => panic!("{url}: {seen:?}"),
            }
        };
        check("https://Example.com/hook?token=x#y", Ok("https://example.com:443"));
        check("http://example.com:8080", Ok("http://example.com:8080"));
        check("http://8.8.8.8/", Ok("http://8.8.8.8:80"));
        check("http://localhost/", Ok("http://localhost:80"));
        check("ftp://example.com/", Err("does not begin with"));
        check("example.com/hook", Err(""));
        check("https://user:password@example.com/", Err("a user name"));
        check("http://127.0.0.1:80/", Err("is not public"));
        check("http://[::1]/", Err("is not public"));
        check("http://[::ffff:169.254.169.254]/latest", Err("is not public"));
        check(&format!("https://example.com/{}", "x".repeat(2_048)), Err("2048"));
        assert!(WebhookUrl::parse("http://127.0.0.1/", true).is_ok());
    }

    fn client(allow_private: bool) -> WebhookClient {
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        WebhookClient::new(secret, allow_private, Duration::from_secs(5)).unwrap()
    }

    #[tokio::test]
    async fn a_name_is_judged_by_the_address_that_is_connected_to() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // the second one is no address to this parser, and one to the resolver
        for host in ["localhost", "2130706433"] {
            let url = WebhookUrl::parse(&format!("http://{host}:{port}/"), false).unwrap();
            let refused = client(false).send(&url, "id", 1, Vec::new()).await.unwrap_err();
            assert!(matches!(refused, WebhookError::PrivateAddress), "{host}: {refused}");
            assert!(refused.is_final());
        }
        // an address of before the setting was changed
        let url = WebhookUrl::parse(&format!("http://127.0.0.1:{port}/"), true).unwrap();
        let refused = client(false).send(&url, "id", 1, Vec::new()).await.unwrap_err();
        assert!(matches!(refused, WebhookError::PrivateAddress), "{refused}");
        let unreached = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(unreached.is_err(), "it was connected to");
    }
}
