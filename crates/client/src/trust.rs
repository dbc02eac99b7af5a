//! Which certificates are trusted for `https`.

use std::path::{Path, PathBuf};

use rustls::pki_types::pem;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, Error};
use weir_trust::CertificateCheck;

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
        /// The problem.
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
                let trusted = certificates(path)?.swap_remove(0);
                Ok(weir_trust::client_config_with(OneCertificate(trusted))?)
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
struct OneCertificate(CertificateDer<'static>);

impl CertificateCheck for OneCertificate {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _now: UnixTime,
    ) -> Result<(), Error> {
        match *certificate == self.0 {
            true => Ok(()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }
}
