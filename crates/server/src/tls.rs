//! TLS of the gateway: certificate and key from PEM files, which are replaced while the gateway runs.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{InconsistentKeys, ServerConfig};
use tokio_rustls::TlsAcceptor;
use weir_config::table::Server;

const CERTIFICATE: &str = "server.tls_certificate";
const KEY: &str = "server.tls_key";

/// Permission bits of accounts that are neither the owner nor in the group.
const OTHERS: u32 = 0o007;

/// Why certificate and key can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("`{setting}` can't be read: {}; name a PEM file that the user of this process may read", .path.display())]
    Read {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file has no certificate.
    #[error(
        "`{CERTIFICATE}` has no certificate: {}; a PEM file begins with `-----BEGIN CERTIFICATE-----`", .0.display()
    )]
    NoCertificate(PathBuf),
    /// The file has no key.
    #[error(
        "`{KEY}` has no private key without a passphrase: {}; a PEM file has `-----BEGIN PRIVATE KEY-----`, and \
         `openssl pkey -in OLD -out NEW` removes a passphrase", .0.display()
    )]
    NoKey(PathBuf),
    /// A file is damaged.
    #[error("`{setting}` is not a valid PEM file: {}", .path.display())]
    Pem {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        source: pem::Error,
    },
    /// The key is the key of another certificate.
    #[error(
        "the key `{KEY}` is not that of the first certificate in `{CERTIFICATE}`; put the certificate of the gateway before those of \
         the authorities, and name its key"
    )]
    Mismatch,
    /// The certificate or the key can't be used.
    #[error("certificate and key can't be used")]
    Unusable(#[from] rustls::Error),
}

/// Certificate and key in service. Clones share them.
#[derive(Clone)]
pub struct Tls(Arc<Files>);

struct Files {
    certificate: PathBuf,
    key: PathBuf,
    in_service: ArcSwap<InService>,
}

struct InService {
    config: Arc<ServerConfig>,
    /// Of the bytes of both files.
    hash: blake3::Hash,
}

impl Tls {
    /// Reads the files of the configuration; `None` without them.
    ///
    /// # Errors
    /// When a file can't be read, or the two can't be used together.
    pub fn load(server: &Server) -> Result<Option<Tls>, TlsError> {
        if !server.has_tls() {
            return Ok(None);
        }
        let (certificate, key) = (PathBuf::from(&server.tls_certificate), PathBuf::from(&server.tls_key));
        let in_service = ArcSwap::from_pointee(read(&certificate, &key)?);
        Ok(Some(Tls(Arc::new(Files { certificate, key, in_service }))))
    }

    /// Reads the files again, for connections that begin later; whether they have changed.
    ///
    /// # Errors
    /// When the files can't be used together; those in service stay.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let read = read(&self.0.certificate, &self.0.key)?;
        let is_changed = read.hash != self.0.in_service.load().hash;
        self.0.in_service.store(Arc::new(read));
        Ok(is_changed)
    }

    /// The files of certificate and key.
    pub fn files(&self) -> [&Path; 2] {
        [&self.0.certificate, &self.0.key]
    }

    /// Accepts TLS connections with what is in service now.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.in_service.load().config.clone())
    }
}

/// The protocols that clients choose from, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

#[allow(clippy::wildcard_enum_match_arm, reason = "every other error is told as it is")]
fn read(certificate: &Path, key: &Path) -> Result<InService, TlsError> {
    let chain = read_file(CERTIFICATE, certificate)?;
    let secret = read_file(KEY, key)?;
    let mut hasher = blake3::Hasher::new();
    let hash = hasher.update(&(chain.len() as u64).to_le_bytes()).update(&chain).update(&secret).finalize();
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .map_err(|source| TlsError::Pem { setting: CERTIFICATE, path: certificate.to_owned(), source })?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(certificate.to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_slice(&secret).map_err(|source| match source {
        pem::Error::NoItemsFound => TlsError::NoKey(key.to_owned()),
        source => TlsError::Pem { setting: KEY, path: key.to_owned(), source },
    })?;
    warn_of_readable_key(key);
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    let mut config = config.with_single_cert(chain, secret).map_err(|error| match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsError::Mismatch,
        other => TlsError::Unusable(other),
    })?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(InService { config: Arc::new(config), hash })
}

fn read_file(setting: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { setting, path: path.to_owned(), source })
}

fn warn_of_readable_key(key: &Path) {
    let mode = std::fs::metadata(key).map_or(0, |metadata| metadata.permissions().mode());
    if mode & OTHERS != 0 {
        tracing::warn!(
            file = %key.display(),
            "every account of this machine may read the private key `{KEY}`; restrict it by `chmod 600`"
        );
    }
}
