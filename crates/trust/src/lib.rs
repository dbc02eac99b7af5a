//! Which certificates of servers are trusted: those of public authorities, and those of a file.
//!
//! A file names authorities, or the certificate of a server itself. `openssl req -x509` makes a certificate that is both: it names a server and is
//! marked as an authority. WebPKI refuses such a certificate at a server, so that it is compared with the file byte by byte instead.

#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, VerifierBuilderError};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The error of WebPKI's verifier for an authority's certificate at a server, after it has checked the time.
const IS_AUTHORITY: &str = "CaUsedAsEndEntity";

/// The certificates of a PEM file, at least one.
///
/// # Errors
/// When the file can't be read or has none.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let read: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(path)?.collect::<Result<_, _>>()?;
    if read.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(read) }
}

/// Decides about the certificate of a server; the signatures of the handshake are checked beside it.
pub trait CertificateCheck: std::fmt::Debug + Send + Sync + 'static {
    /// Checks the certificate of the server of that name, at that time.
    ///
    /// # Errors
    /// When the certificate is not trusted.
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error>;
}

/// The settings of a client that trusts the authorities of Mozilla's list, which are compiled in, and `certificates`.
///
/// # Errors
/// When a certificate can't be used.
pub fn client_config(certificates: Vec<CertificateDer<'static>>) -> Result<ClientConfig, Error> {
    let public = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    client_config_with(AuthorityCheck::new(public, certificates)?)
}

/// The settings of a client that trusts what passes the check.
///
/// # Errors
/// None with the versions of TLS that are compiled in.
pub fn client_config_with(check: impl CertificateCheck) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { check, algorithms }))
        .with_no_client_auth())
}

/// Checks certificates as `C` does, and the signatures of handshakes always.
#[derive(Debug)]
struct Verifier<C> {
    check: C,
    algorithms: WebPkiSupportedAlgorithms,
}

impl<C: CertificateCheck> ServerCertVerifier for Verifier<C> {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check.check(certificate, intermediates, name, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Checks certificates by authorities, and compares those of servers that are their own authority.
#[derive(Debug)]
pub struct AuthorityCheck {
    by_authority: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl AuthorityCheck {
    /// Trusts `roots`, and `certificates` as authorities and at servers.
    ///
    /// # Errors
    /// When a certificate can't be used, or there is none.
    pub fn new(
        mut roots: RootCertStore,
        certificates: Vec<CertificateDer<'static>>,
    ) -> Result<AuthorityCheck, Error> {
        for certificate in &certificates {
            roots.add(certificate.clone())?;
        }
        let provider = Arc::new(ring::default_provider());
        let by_authority = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let by_authority =
            by_authority.map_err(|error: VerifierBuilderError| Error::General(error.to_string()))?;
        Ok(AuthorityCheck { by_authority, certificates })
    }
}

impl CertificateCheck for AuthorityCheck {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let verified = self.by_authority.verify_server_cert(certificate, intermediates, name, &[], now);
        let is_authority = matches!(
            &verified,
            Err(Error::InvalidCertificate(CertificateError::Other(error))) if error.0.to_string() == IS_AUTHORITY
        );
        if is_authority && self.certificates.contains(certificate) {
            return verify_server_name(&ParsedCertificate::try_from(certificate)?, name);
        }
        verified.map(|_| ())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    /// A certificate for `localhost` that is its own authority; `is_ca`: as `openssl req -x509` makes it.
    fn own(is_ca: bool) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_that_is_its_own_authority_is_trusted_by_its_file_alone() {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
        let over = UnixTime::since_unix_epoch(Duration::from_secs(1 << 40));
        for is_ca in [true, false] {
            let (certificate, other) = (own(is_ca), own(is_ca));
            let by_file = AuthorityCheck::new(RootCertStore::empty(), vec![certificate.clone()]).unwrap();
            let check = |certificate: &CertificateDer<'_>, name: &'static str, now| {
                let name = ServerName::try_from(name).unwrap();
                by_file.check(certificate, &[], &name, now)
            };
            assert_eq!(check(&certificate, "localhost", now), Ok(()), "{is_ca}");
            let refused = |certificate: &CertificateDer<'_>, name, now| {
                check(certificate, name, now).unwrap_err().to_string()
            };
            assert!(refused(&certificate, "example.com", now).contains("not valid for name"), "{is_ca}");
            assert!(refused(&certificate, "localhost", over).contains("expired"), "{is_ca}");
            let unknown = refused(&other, "localhost", now);
            assert!(
                unknown.contains("UnknownIssuer")
                    || unknown.contains(IS_AUTHORITY)
                    || unknown.contains("BadSignature"),
                "{unknown}"
            );
        }
    }
}
