//! Which certificates are trusted for `https`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// The certificates that a client trusts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trust {
    /// Those of the authorities of Mozilla's list, which is compiled in.
    #[default]
    PublicAuthorities,
    /// In addition, those of the authorities in a PEM file, and the certificates in it themselves.
    File(PathBuf),
    /// Only the first one of a PEM file, whatever its name: a server on this machine, whose file it is.
    Certificate(PathBuf),
}

/// Why a file of certificates can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file can't be read or has no certificate.
    #[error("{path} has no certificates: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// A certificate can't be used.
    #[error("a trusted certificate can't be used: {0}")]
    Certificate(#[from] Error),
}

impl Trust {
    /// The settings of TLS.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, TrustError> {
        match self {
            Trust::PublicAuthorities => Ok(weir_trust::client_config(Vec::new())?),
            Trust::File(path) => Ok(weir_trust::client_config(certificates(path)?)?),
            Trust::Certificate(path) => {
                let provider = Arc::new(ring::default_provider());
                let builder = ClientConfig::builder_with_provider(provider.clone())
                    .with_safe_default_protocol_versions()?;
                let trusted = certificates(path)?.swap_remove(0);
                let verifier = Arc::new(OneCertificate { trusted, provider });
                let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
                Ok(builder.with_no_client_auth())
            }
        }
    }
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let refused = |source| TrustError::File { path: path.to_owned(), source };
    weir_trust::read_certificates(path).map_err(refused)
}

/// Trusts one certificate.
#[derive(Debug)]
struct OneCertificate {
    trusted: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for OneCertificate {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match *certificate == self.trusted {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
