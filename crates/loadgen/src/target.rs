//! The target of a run and its requests, which are rendered to bytes before the run.

use std::net::{SocketAddr, ToSocketAddrs};

use http::{HeaderName, HeaderValue, Method, Uri};

/// Why a URL, method or header is invalid.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Not a URL of the form `http://host[:port][/path]`.
    #[error("`{url}` can't be a target: {reason}; write http://host:port/path")]
    Url {
        /// The given text.
        url: String,
        /// Why it is invalid.
        reason: &'static str,
    },
    /// The host has no address.
    #[error("host `{host}` has no address; check the name or write the address itself")]
    Resolve {
        /// The given host and port.
        host: String,
        /// The resolver's error, if it returned one.
        source: Option<std::io::Error>,
    },
    /// The host is another machine, which is not allowed.
    #[error("{0} is not a loopback address; pass --allow-remote if you may put load on that machine")]
    Remote(SocketAddr),
    /// A method, header name or header value that HTTP doesn't allow, or a header that follows from the body.
    #[error("{what} `{given}` can't be sent: {reason}")]
    Header {
        /// `method` or `header`.
        what: &'static str,
        /// The given text.
        given: String,
        /// Why it is invalid.
        reason: &'static str,
    },
}

/// A resolved target: its address, and the text of the request line and the `Host` header.
#[derive(Debug, Clone)]
pub struct LoadTarget {
    /// The address of every connection.
    pub addr: SocketAddr,
    /// Host and port as in the URL, for the `Host` header.
    pub authority: String,
    /// Path and query, at least `/`.
    pub path: String,
}

impl LoadTarget {
    /// Parses `http://host[:port][/path][?query]` and resolves the host once.
    ///
    /// Other schemes and credentials in the URL are errors; so is, unless `allow_remote`, a host with an address that isn't
    /// loopback.
    pub fn parse(url: &str, allow_remote: bool) -> Result<LoadTarget, TargetError> {
        let bad = |reason| TargetError::Url { url: url.to_owned(), reason };
        let uri: Uri = url.parse().map_err(|_| bad("it can't be parsed"))?;
        if uri.scheme_str() != Some("http") {
            return Err(bad("the scheme isn't http"));
        }
        let authority = uri.authority().ok_or_else(|| bad("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("it holds credentials; send them with --header"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let addr = resolve(host, authority.port_u16().unwrap_or(80), allow_remote)?;
        let path = uri.path_and_query().map_or("/", |p| p.as_str());
        Ok(LoadTarget { addr, authority: authority.to_string(), path: path.to_owned() })
    }
}

/// Rejects `addr` unless it is loopback or `allow_remote`.
pub(crate) fn check_loopback(addr: SocketAddr, allow_remote: bool) -> Result<(), TargetError> {
    if allow_remote || addr.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(TargetError::Remote(addr))
}

fn resolve(host: &str, port: u16, allow_remote: bool) -> Result<SocketAddr, TargetError> {
    let unknown = |source| TargetError::Resolve { host: format!("{host}:{port}"), source };
    let addrs: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(|e| unknown(Some(e)))?.collect();
    for addr in &addrs {
        check_loopback(*addr, allow_remote)?;
    }
    // IPv4 first: `localhost` often resolves to ::1 before 127.0.0.1, on which servers listen.
    addrs.iter().find(|a| a.is_ipv4()).or(addrs.first()).copied().ok_or_else(|| unknown(None))
}

/// Method and headers of all requests of a run.
#[derive(Debug, Clone)]
pub struct RequestTemplate {
    method: Method,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl RequestTemplate {
    /// Checks a method and headers of the form `name: value`.
    ///
    /// `Content-Length` and `Transfer-Encoding` are rejected, because they follow from the body.
    /// `Host` and `Content-Type` replace the default values.
    pub fn new(method: &str, headers: &[String]) -> Result<RequestTemplate, TargetError> {
        let bad = |what, given: &str, reason| TargetError::Header { what, given: given.to_owned(), reason };
        let method = Method::from_bytes(method.as_bytes())
            .map_err(|_| bad("method", method, "it isn't an HTTP method"))?;
        if method == Method::CONNECT {
            return Err(bad("method", "CONNECT", "tunnels aren't supported"));
        }
        let headers = headers.iter().map(|line| parse_header(line)).collect::<Result<_, _>>()?;
        Ok(RequestTemplate { method, headers })
    }

    /// The method in the request line.
    pub fn method(&self) -> &str {
        self.method.as_str()
    }

    /// The bytes of a request. `Content-Type` is `application/json` unless given or `body` is empty.
    pub fn render(&self, target: &LoadTarget, body: &[u8]) -> Vec<u8> {
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, target.path).into_bytes();
        if !self.has(&http::header::HOST) {
            push_header(&mut out, "host", target.authority.as_bytes());
        }
        if !body.is_empty() && !self.has(&http::header::CONTENT_TYPE) {
            push_header(&mut out, "content-type", b"application/json");
        }
        for (name, value) in &self.headers {
            push_header(&mut out, name.as_str(), value.as_bytes());
        }
        // RFC 9110, section 8.6: methods with a defined body send its length even if it is 0.
        if !body.is_empty() || matches!(self.method, Method::POST | Method::PUT | Method::PATCH) {
            push_header(&mut out, "content-length", body.len().to_string().as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
        out
    }

    fn has(&self, name: &HeaderName) -> bool {
        self.headers.iter().any(|(n, _)| n == name)
    }
}

fn parse_header(line: &str) -> Result<(HeaderName, HeaderValue), TargetError> {
    let bad = |reason| TargetError::Header { what: "header", given: line.to_owned(), reason };
    let (name, value) = line.split_once(':').ok_or_else(|| bad("write it as `name: value`"))?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| bad("the name isn't valid"))?;
    let value = HeaderValue::from_str(value.trim()).map_err(|_| bad("the value isn't valid"))?;
    if name == http::header::CONTENT_LENGTH || name == http::header::TRANSFER_ENCODING {
        return Err(bad("it follows from the body"));
    }
    Ok((name, value))
}

fn push_header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(url: &str) -> String {
        LoadTarget::parse(url, false).unwrap_err().to_string()
    }

    #[test]
    fn every_form_of_a_loopback_address_is_accepted() {
        for (url, addr) in [
            ("http://127.0.0.1:8000/v1/search?x=1", "127.0.0.1:8000"),
            ("http://127.9.9.9", "127.9.9.9:80"),
            ("http://[::1]:7/", "[::1]:7"),
            ("http://[::ffff:127.0.0.1]:7/", "[::ffff:127.0.0.1]:7"),
        ] {
            assert_eq!(LoadTarget::parse(url, false).unwrap().addr, addr.parse().unwrap(), "{url}");
        }
    }

    #[test]
    fn an_address_of_another_machine_is_rejected_unless_allowed() {
        for url in ["http://192.0.2.1:80/", "http://0.0.0.0:80/", "http://[2001:db8::1]/"] {
            assert!(rejection(url).contains("pass --allow-remote"), "{url}");
            assert!(LoadTarget::parse(url, true).is_ok(), "{url}");
        }
    }

    #[test]
    fn urls_with_credentials_or_another_scheme_are_rejected() {
        assert!(rejection("https://127.0.0.1/").contains("the scheme isn't http"));
        assert!(rejection("127.0.0.1:8000").contains("the scheme isn't http"));
        assert!(rejection("http://me:pw@127.0.0.1/").contains("it holds credentials"));
        assert!(rejection("http://").contains("it can't be parsed"));
    }

    #[test]
    fn a_request_is_rendered_byte_for_byte() {
        let target = LoadTarget::parse("http://127.0.0.1:8000/v1/search?q=a%20b", false).unwrap();
        let template = RequestTemplate::new("POST", &["X-Trace:  7 ".to_owned()]).unwrap();
        let expected = "POST /v1/search?q=a%20b HTTP/1.1\r\nhost: 127.0.0.1:8000\r\n\
            content-type: application/json\r\nx-trace: 7\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(String::from_utf8(template.render(&target, b"{}")).unwrap(), expected);
        let get = RequestTemplate::new("GET", &["host: weir.test".to_owned()]).unwrap();
        let expected = "GET /v1/search?q=a%20b HTTP/1.1\r\nhost: weir.test\r\n\r\n";
        assert_eq!(String::from_utf8(get.render(&target, b"")).unwrap(), expected);
    }

    #[test]
    fn headers_that_would_break_the_framing_are_rejected() {
        for line in ["Content-Length: 3", "transfer-encoding: chunked", "a: b\r\nc: d", "no colon", "a b: c"]
        {
            assert!(RequestTemplate::new("GET", &[line.to_owned()]).is_err(), "{line}");
        }
    }
}
