//! Certificates of servers, and the authority that has signed them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// An authority that nobody knows, with its certificate in a file.
pub(super) struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "an authority of the tests");
        let key = KeyPair::generate().unwrap();
        write(&folder.path().join("authority.pem"), "CERTIFICATE", params.self_signed(&key).unwrap().der());
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    /// The file with its certificate.
    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// Writes a certificate for a name or an address, and its key.
    pub(super) fn issue(&self, name: &str, certificate: &Path, key: &Path) {
        let pair = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        write(certificate, "CERTIFICATE", params.signed_by(&pair, &self.issuer).unwrap().der());
        write(key, "PRIVATE KEY", &pair.serialize_der());
    }
}

fn write(path: &Path, label: &str, bytes: &[u8]) {
    let text = BASE64_STANDARD.encode(bytes);
    fs::write(path, format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
