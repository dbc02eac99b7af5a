//! The address of PostgreSQL and the TLS of its connections: `sslmode` and `sslrootcert` have the meaning of libpq.

#![forbid(unsafe_code)]

use std::error::Error as _;
use std::fmt;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{Client, Config, Socket};
use tokio_rustls::{TlsConnector, client};
use weir_trust::{AuthorityCheck, CertificateCheck};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Without a setting in the address, two hours: too long for a server that has vanished.
const KEEPALIVES_IDLE: Duration = Duration::from_secs(30);
/// The client's message about a server without TLS.
const NO_TLS: &str = "server does not support TLS";
/// The name of the protocol in TLS; servers before PostgreSQL 17 ignore it.
const PROTOCOL: &[u8] = b"postgresql";

/// Why the address can't be used. No message holds the address, which has a password.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is not an address.
    #[error("it is not a URL; write postgresql://USER:PASSWORD@HOST/DATABASE into what it names")]
    Form,
    /// The mode is unknown.
    #[error("its `sslmode` is not disable, prefer, require, verify-ca or verify-full")]
    Mode,
    /// The file of authorities can't be read.
    #[error("its `sslrootcert` has no certificates: {0}")]
    Authorities(String),
    /// The authorities can't be used.
    #[error("its `sslrootcert` can't be used: {0}")]
    Tls(#[from] rustls::Error),
}

/// The checks of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Nothing,
    Authority,
    AuthorityAndName,
}

/// Where a database is, and how it is connected. `Debug` shows neither.
#[derive(Clone)]
pub struct Address {
    config: Config,
    tls: RustlsConnect,
}

/// An open connection, which is to be polled until the client is dropped.
pub type Connection = tokio_postgres::Connection<Socket, RustlsStream<Socket>>;

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").finish_non_exhaustive()
    }
}

impl Address {
    /// Reads `postgresql://…` or `host=… user=…`.
    ///
    /// # Errors
    /// When it is not an address, or its `sslmode` or `sslrootcert` can't be used.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        let (text, mode) = take_parameter(text, "sslmode");
        let (text, authorities) = take_parameter(&text, "sslrootcert");
        let authorities = authorities.filter(|file| file != "system");
        let (mode, check) = match mode.as_deref() {
            Some("disable") => (SslMode::Disable, Check::Nothing),
            None | Some("prefer") => (SslMode::Prefer, Check::Nothing),
            Some("require") if authorities.is_none() => (SslMode::Require, Check::Nothing),
            Some("require" | "verify-ca") => (SslMode::Require, Check::Authority),
            Some("verify-full") => (SslMode::Require, Check::AuthorityAndName),
            Some(_) => return Err(AddressError::Mode),
        };
        let mut config: Config = text.parse().map_err(|_| AddressError::Form)?;
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(KEEPALIVES_IDLE);
        }
        config.ssl_mode(mode).connect_timeout(CONNECT_TIMEOUT).application_name("weir");
        Ok(Address { config, tls: RustlsConnect::new(check, authorities.as_deref())? })
    }

    /// Connects.
    ///
    /// # Errors
    /// Those of the network, of TLS, and of authentication.
    pub async fn connect(&self) -> Result<(Client, Connection), tokio_postgres::Error> {
        self.config.connect(self.tls.clone()).await
    }
}

/// The TLS problem of an address, if that is why no connection was opened, with the remedy.
pub fn tls_problem(error: &tokio_postgres::Error) -> Option<String> {
    let source = error.source()?;
    let refused = source.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match refused.and_then(|refused| refused.downcast_ref::<Error>()) {
        Some(untrusted @ Error::InvalidCertificate(_)) => Some(format!(
            "its certificate is not trusted ({untrusted}); name the file of its authority as `sslrootcert` in the URL, and the host as the certificate does"
        )),
        Some(_) => None,
        None if source.to_string() == NO_TLS => {
            Some(format!("{NO_TLS}; turn its `ssl` on, or correct `sslmode` in the URL"))
        }
        None => None,
    }
}

/// Takes a parameter out of `…?name=value&…` or `… name=value …`.
fn take_parameter(text: &str, name: &str) -> (String, Option<String>) {
    let is_url = text.contains("://");
    let (start, parameters, separator) = match text.split_once('?') {
        Some((start, parameters)) if is_url => (format!("{start}?"), parameters, "&"),
        _ if is_url => return (text.to_owned(), None),
        _ => (String::new(), text, " "),
    };
    let is_taken = |pair: &&str| pair.split_once('=').is_some_and(|(key, _)| key == name);
    let (taken, kept): (Vec<&str>, Vec<&str>) = parameters.split(separator).partition(is_taken);
    let value = taken.last().and_then(|pair| pair.split_once('=')).map(|(_, value)| match is_url {
        true => percent_decode_str(value).decode_utf8_lossy().into_owned(),
        false => value.to_owned(),
    });
    (start + &kept.join(separator), value)
}

/// Opens TLS over connections to the database.
#[derive(Clone)]
struct RustlsConnect(TlsConnector);

impl RustlsConnect {
    fn new(mode: Check, authorities: Option<&str>) -> Result<RustlsConnect, AddressError> {
        let by_authority = match mode {
            Check::Nothing => None,
            Check::Authority | Check::AuthorityAndName => {
                let (roots, certificates) = trusted(authorities)?;
                Some(AuthorityCheck::new(roots, certificates)?)
            }
        };
        let mut config = weir_trust::client_config_with(CheckOfMode { by_authority, mode })?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(RustlsConnect(TlsConnector::from(Arc::new(config))))
    }
}

/// Mozilla's list of authorities, or the certificates of a file.
fn trusted(file: Option<&str>) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), AddressError> {
    let Some(file) = file else {
        return Ok((RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }, Vec::new()));
    };
    let certificates = weir_trust::read_certificates(Path::new(file));
    let certificates = certificates.map_err(|error| AddressError::Authorities(format!("{file}: {error}")))?;
    Ok((RootCertStore::empty(), certificates))
}

/// Checks as much of a certificate as the mode asks for.
#[derive(Debug)]
struct CheckOfMode {
    by_authority: Option<AuthorityCheck>,
    mode: Check,
}

impl CertificateCheck for CheckOfMode {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let Some(by_authority) = &self.by_authority else { return Ok(()) };
        let checked = by_authority.check(certificate, intermediates, name, now);
        let is_other_name = matches!(
            checked,
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            ))
        );
        if is_other_name && self.mode == Check::Authority { Ok(()) } else { checked }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for RustlsConnect {
    type Stream = RustlsStream<S>;
    type TlsConnect = NamedConnect;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<NamedConnect, InvalidDnsNameError> {
        // the name is used by TLS alone; connections over a Unix socket have none
        let name = if host.is_empty() { "localhost" } else { host };
        Ok(NamedConnect(self.0.clone(), ServerName::try_from(name)?.to_owned()))
    }
}

/// Opens TLS to a server of this name.
struct NamedConnect(TlsConnector, ServerName<'static>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for NamedConnect {
    type Stream = RustlsStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<RustlsStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { Ok(RustlsStream(Box::new(self.0.connect(self.1, stream).await?))) })
    }
}

/// An encrypted connection.
pub struct RustlsStream<S>(Box<client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for RustlsStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for RustlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for RustlsStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_taken_out_of_both_forms_of_an_address() {
        for (text, left, value) in [
            ("postgresql://u:p@h/d?sslmode=require&a=b", "postgresql://u:p@h/d?a=b", Some("require")),
            ("postgresql://u:p@h/d?a=b", "postgresql://u:p@h/d?a=b", None),
            ("postgresql://u:p@h/d", "postgresql://u:p@h/d", None),
            ("postgresql://h/d?sslmode=a%20b", "postgresql://h/d?", Some("a b")),
            ("host=h sslmode=verify-full user=u", "host=h user=u", Some("verify-full")),
        ] {
            assert_eq!(
                take_parameter(text, "sslmode"),
                (left.to_owned(), value.map(str::to_owned)),
                "{text}"
            );
        }
    }

    #[test]
    fn the_modes_of_libpq_are_understood_and_others_refused() {
        for (parameters, expected) in [
            ("", Some(SslMode::Prefer)),
            ("?sslmode=disable", Some(SslMode::Disable)),
            ("?sslmode=require", Some(SslMode::Require)),
            ("?sslmode=verify-ca", Some(SslMode::Require)),
            ("?sslmode=verify-full&sslrootcert=system", Some(SslMode::Require)),
            ("?sslmode=sometimes", None),
            ("?sslmode=verify-full&sslrootcert=/no/such/file", None),
        ] {
            let parsed = Address::parse(&format!("postgresql://u:p@h/d{parameters}"));
            let mode = parsed.ok().map(|address| address.config.get_ssl_mode());
            assert_eq!(mode, expected, "{parameters}");
        }
    }
}
