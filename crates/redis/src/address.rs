//! The address of a server, and the TLS of its connections.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use redis::{ConnectionAddr, IntoConnectionInfo as _, RedisConnectionInfo};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// The parameter of an address that names a file of certificates.
const CA_FILE: &str = "ca_file=";

/// Why an address can't be used. No message holds the address, which may have a password.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is not an address.
    #[error(
        "it is not a URL; write redis://USER:PASSWORD@HOST:PORT/DATABASE into what it names, or rediss:// for TLS"
    )]
    Form,
    /// It is an address of something else.
    #[error("it begins with neither redis:// nor rediss:// (for TLS)")]
    Scheme,
    /// It names certificates, and no TLS.
    #[error("its `ca_file` is for TLS: write rediss:// instead of redis://")]
    NoTls,
    /// The file of certificates can't be read.
    #[error("its `ca_file` has no certificates: {0}")]
    Authorities(String),
    /// The certificates can't be used.
    #[error("its `ca_file` can't be used: {0}")]
    Tls(#[from] rustls::Error),
}

/// Where a server is, and how it is connected. `Debug` shows neither.
#[derive(Clone)]
pub struct Address {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    pub(crate) login: RedisConnectionInfo,
}

/// A connection with or without TLS.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").finish_non_exhaustive()
    }
}

impl Address {
    /// Reads `redis://…` or, for TLS, `rediss://…`. The server's certificate is checked by the authorities of Mozilla's list and those of
    /// `?ca_file=PATH`.
    ///
    /// # Errors
    /// When it is not an address, or its `ca_file` can't be used.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        let (url, ca_file) = match text.split_once('?') {
            None => (text, None),
            Some((url, parameters)) => {
                (url, Some(parameters.strip_prefix(CA_FILE).ok_or(AddressError::Form)?))
            }
        };
        let (scheme, rest) = url.split_once("://").ok_or(AddressError::Form)?;
        let has_tls = match scheme {
            "redis" if ca_file.is_none() => false,
            "redis" => return Err(AddressError::NoTls),
            "rediss" => true,
            _ => return Err(AddressError::Scheme),
        };
        let info = format!("redis://{rest}").into_connection_info().map_err(|_| AddressError::Form)?;
        let ConnectionAddr::Tcp(host, port) = info.addr().clone() else { return Err(AddressError::Form) };
        let tls = has_tls.then(|| tls(&host, ca_file)).transpose()?;
        let login = info.redis_settings().clone().set_skip_set_lib_name();
        Ok(Address { host, port, tls, login })
    }

    /// Connects.
    ///
    /// # Errors
    /// Those of the network and of TLS.
    pub(crate) async fn connect(&self) -> io::Result<Stream> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            None => Either::Left(stream),
            Some((tls, name)) => Either::Right(Box::new(tls.connect(name.clone(), stream).await?)),
        })
    }
}

fn tls(host: &str, ca_file: Option<&str>) -> Result<(TlsConnector, ServerName<'static>), AddressError> {
    let read = ca_file.map(|file| weir_trust::read_certificates(Path::new(file)));
    let certificates = read.transpose().map_err(|error| AddressError::Authorities(error.to_string()))?;
    let config = weir_trust::client_config(certificates.unwrap_or_default())?;
    let name = ServerName::try_from(host.to_owned()).map_err(|_| AddressError::Form)?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_used_says_why() {
        for (text, expected) in [
            ("redis.example:7000", "it is not a URL"),
            ("http://redis.example", "neither redis:// nor rediss://"),
            ("redis+unix:///run/redis", "neither redis:// nor rediss://"),
            ("redis://redis.example/two", "it is not a URL"),
            ("redis://redis.example?ca_file=/a", "write rediss:// instead"),
            ("rediss://redis.example?ca_file=/no/such/file", "has no certificates"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn addresses_are_read_and_never_shown() {
        for (text, expected) in [
            ("redis://127.0.0.1", Some(("127.0.0.1", 6379, false))),
            ("redis://:secret@redis.example:7000/2", Some(("redis.example", 7000, false))),
            ("rediss://user:secret@redis.example", Some(("redis.example", 6379, true))),
            ("redis.example:7000", None),
            ("http://redis.example", None),
            ("redis+unix:///run/redis", None),
            ("redis://redis.example/two", None),
            ("redis://redis.example?ca_file=/a", None),
            ("rediss://redis.example?ca_file=/no/such/file", None),
        ] {
            let parsed = Address::parse(text);
            assert!(!format!("{parsed:?}").contains("secret"), "{parsed:?}");
            let parsed = parsed.ok();
            let shown = parsed.as_ref().map(|address| (&*address.host, address.port, address.tls.is_some()));
            assert_eq!(shown, expected, "{text}");
        }
    }
}
