//! TLS of the gateway: protocols, certificates that are replaced while it runs, starts that are refused, and the commands that call it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;
use weir_client::{Transport, Trust};

use crate::support::gateway::Gateway;
use crate::support::process::{Weir, wait};

/// Longest time until a changed file is in force.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// A folder with a certificate for 127.0.0.1, which is its own authority, and its key.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Files {
        let files = Files { folder: tempfile::tempdir().unwrap() };
        files.issue("certificate.pem", "key.pem");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a new certificate and its key.
    fn issue(&self, certificate: &str, key: &str) {
        self.issue_as(rcgen::IsCa::NoCa, certificate, key);
    }

    fn issue_as(&self, is_ca: rcgen::IsCa, certificate: &str, key: &str) {
        let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let pair = rcgen::KeyPair::generate().unwrap();
        let made = params.self_signed(&pair).unwrap();
        let secret = pair.serialize_der();
        for (name, label, bytes) in
            [(certificate, "CERTIFICATE", made.der().as_ref()), (key, "PRIVATE KEY", &secret)]
        {
            let text = BASE64_STANDARD.encode(bytes);
            fs::write(self.path(name), format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n"))
                .unwrap();
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    fn variables(&self) -> [(&'static str, String); 2] {
        let name = |file: &str| self.path(file).display().to_string();
        [("WEIR_SERVER_TLS_CERTIFICATE", name("certificate.pem")), ("WEIR_SERVER_TLS_KEY", name("key.pem"))]
    }

    fn start(&self, more: &[(&str, &str)]) -> Weir {
        let files = self.variables();
        let files = files.iter().map(|(name, value)| (*name, value.as_str()));
        let variables: Vec<(&str, &str)> = files.chain(more.iter().copied()).collect();
        Weir::start_with(&self.path("data"), &variables)
    }

    /// A copy of the certificate, for clients of a gateway whose own is replaced later.
    fn keep_certificate(&self) -> PathBuf {
        let kept = self.path("kept.pem");
        fs::copy(self.path("certificate.pem"), &kept).unwrap();
        kept
    }
}

/// The status of a request by a client that trusts this certificate; `None` without a reply.
fn status(weir: &Weir, trusted: &Path) -> Option<u16> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let trust = Trust::File(trusted.to_owned());
    let transport = Transport::with_trust(Duration::from_secs(10), &trust).unwrap();
    let reply = runtime.block_on(transport.get(&format!("{}/readyz", weir.url)));
    reply.ok().map(|reply| reply.status().as_u16())
}

fn address(weir: &Weir) -> &str {
    weir.url.strip_prefix("https://").expect("it serves TLS")
}

fn wait_for(what: &str, is_done: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_done() {
        assert!(started.elapsed() < RELOAD_TIMEOUT, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn http_2_is_chosen_where_the_client_offers_it_and_plain_http_is_not_answered() {
    let files = Files::new();
    let weir = files.start(&[]);
    let certificate = files.path("certificate.pem");
    assert_eq!(status(&weir, &certificate), Some(200));
    for (offered, chosen) in
        [(["h2", "http/1.1"].as_slice(), Some("h2")), (&["http/1.1"], Some("http/1.1")), (&[], None)]
    {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&certificate).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(session, TcpStream::connect(address(&weir)).unwrap());
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut first = [0; 9];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(stream.conn.alpn_protocol(), chosen.map(str::as_bytes), "{offered:?}");
        if chosen != Some("h2") {
            assert_eq!(&first, b"HTTP/1.1 ", "{offered:?}");
        }
    }
    let mut plain = TcpStream::connect(address(&weir)).unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    plain.set_read_timeout(Some(RELOAD_TIMEOUT)).unwrap();
    drop(plain.read_to_end(&mut answer));
    assert!(!answer.starts_with(b"HTTP"), "{}", answer.escape_ascii());
}

#[test]
fn the_usual_self_signed_certificate_serves_and_is_trusted_for_upstreams() {
    let files = Files::new();
    // as `openssl req -x509` does, which marks it as an authority
    files.issue_as(rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained), "certificate.pem", "key.pem");
    let embedder = files.start(&[]);
    let certificate = files.path("certificate.pem");
    assert_eq!(status(&embedder, &certificate), Some(200));
    let texts = r#"{"input": "a weir", "model": "remote"}"#;
    let ask = |ca_file: &str| {
        let config = files.path("gateway.toml");
        let model = format!(
            "[[models]]\nid = \"remote\"\nkind = \"weir\"\nretries_max = 0\nurl = \"{}\"\n{ca_file}",
            embedder.url
        );
        fs::write(&config, model).unwrap();
        let gateway = Gateway::start_with(&[("WEIR_CONFIG", config.to_str().unwrap()), ("WEIR_MODEL", "")]);
        gateway.send("POST", "/v1/embeddings", Some(texts.as_bytes()))
    };
    let trusting = ask(&format!("ca_file = {certificate:?}\n"));
    assert_eq!(trusting.status, 200, "{}", trusting.text);
    let without = ask("");
    assert_eq!(without.status, 502, "{}", without.text);
    let remedy = "name its certificate, or that of its authority, as `ca_file` of the upstream";
    assert!(without.text.contains(remedy), "{}", without.text);
    let log = embedder.log();
    assert!(!log.contains("read again"), "nothing was read twice: {log}");
}

#[test]
fn a_new_certificate_is_in_force_at_once_and_a_bad_pair_changes_nothing() {
    let files = Files::new();
    let weir = files.start(&[]);
    let old = files.keep_certificate();
    assert_eq!(status(&weir, &old), Some(200));
    files.issue("certificate.pem", "key.pem");
    let new = files.path("certificate.pem");
    wait_for("the new certificate", || status(&weir, &new) == Some(200));
    assert_eq!(status(&weir, &old), None, "the old certificate is no longer shown");
    let new = files.keep_certificate();
    files.issue("other.pem", "key.pem");
    wait_for("the refusal", || weir.log().contains("certificate and key were not changed"));
    assert!(weir.log().contains("is not that of the first certificate"), "{}", weir.log());
    assert_eq!(status(&weir, &new), Some(200), "the pair in service goes on");
    let before = weir.log().matches("were not changed").count();
    kill_process(Pid::from_raw(weir.id().cast_signed()).unwrap(), Signal::HUP).unwrap();
    wait_for("the second refusal", || weir.log().matches("were not changed").count() > before);
    assert_eq!(status(&weir, &new), Some(200));
}

#[test]
fn unusable_files_are_refused_at_the_start_with_the_remedy() {
    let files = Files::new();
    files.issue("other.pem", "other-key.pem");
    fs::write(files.path("empty.pem"), "").unwrap();
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    fs::write(files.path("encrypted.pem"), encrypted).unwrap();
    for (certificate, key, expected) in [
        ("nowhere.pem", "key.pem", ["`server.tls_certificate` can't be read", "name a PEM file"]),
        ("certificate.pem", "nowhere.pem", ["`server.tls_key` can't be read", "name a PEM file"]),
        (
            "certificate.pem",
            "",
            ["`server.tls_certificate` is set, and `server.tls_key` is empty", "TLS needs both"],
        ),
        ("empty.pem", "key.pem", ["`server.tls_certificate` has no certificate", "BEGIN CERTIFICATE"]),
        ("certificate.pem", "empty.pem", ["`server.tls_key` has no private key", "BEGIN PRIVATE KEY"]),
        ("certificate.pem", "encrypted.pem", ["without a passphrase", "openssl pkey"]),
        ("certificate.pem", "other-key.pem", ["is not that of the first certificate", "name its key"]),
    ] {
        let path = |name: &str| if name.is_empty() { PathBuf::new() } else { files.path(name) };
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.env_clear().args(["serve", "--model", "pseudo", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(files.path("data")).env("WEIR_SERVER_TLS_CERTIFICATE", path(certificate));
        command.env("WEIR_SERVER_TLS_KEY", path(key)).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let ended = wait(&mut child).map(|status| status.code());
        let mut message = String::new();
        child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        assert_eq!(ended, Some(Some(1)), "{certificate} and {key}: {message}");
        for words in expected {
            assert!(message.contains(words), "{certificate} and {key}: `{words}` is not in:\n{message}");
        }
    }
}

#[test]
fn a_key_that_every_account_may_read_is_named_in_the_log() {
    let files = Files::new();
    let warning = "every account of this machine may read the private key";
    assert!(!files.start(&[]).log().contains(warning));
    fs::set_permissions(files.path("key.pem"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(files.start(&[]).log().contains(warning));
}

#[test]
fn a_handshake_that_stalls_is_ended() {
    let files = Files::new();
    let weir = files.start(&[("WEIR_SERVER_TLS_HANDSHAKE_TIMEOUT_MS", "300")]);
    let mut silent = TcpStream::connect(address(&weir)).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let ended = silent.read(&mut [0; 1]);
    let is_closed =
        matches!(&ended, Ok(0)) || ended.as_ref().is_err_and(|e| e.kind() == ErrorKind::ConnectionReset);
    assert!(is_closed, "{ended:?}");
    assert_eq!(status(&weir, &files.path("certificate.pem")), Some(200));
}

/// Runs a command with these variables and the settings of the gateway if `is_local`, and returns its exit code and error output.
fn run(
    files: &Files,
    weir: &Weir,
    is_local: bool,
    arguments: &[&str],
    more: &[(&str, &str)],
) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env_clear().args(arguments).envs(more.iter().copied());
    match is_local {
        true => command.envs(files.variables()).env("WEIR_LISTEN", address(weir)),
        false => command.env("WEIR_URL", &weir.url),
    };
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn commands_trust_the_gateway_of_their_configuration_and_the_authorities_of_a_file() {
    let files = Files::new();
    let weir = files.start(&[]);
    let certificate = files.path("certificate.pem");
    let certificate = certificate.to_str().unwrap();
    for arguments in [["health"].as_slice(), &["collections"], &["jobs"], &["search", "a weir"]] {
        assert_eq!(run(&files, &weir, true, arguments, &[]), (0, String::new()), "{arguments:?}");
        let trusting = [("WEIR_CA_FILE", certificate)];
        assert_eq!(run(&files, &weir, false, arguments, &trusting), (0, String::new()), "{arguments:?}");
        let (code, message) = run(&files, &weir, false, arguments, &[]);
        assert_eq!(code, 1, "{arguments:?}: {message}");
        assert!(message.contains("WEIR_CA_FILE"), "{message}");
    }
    files.issue("certificate.pem", "other-key.pem");
    let (code, message) = run(&files, &weir, true, &["health"], &[]);
    assert_eq!(code, 1, "another certificate of the same name is not trusted: {message}");
    let (code, message) = run(&files, &weir, false, &["health"], &[("WEIR_CA_FILE", "/no/such/file")]);
    assert_eq!(code, 1, "{message}");
    assert!(message.contains("/no/such/file has no certificates"), "{message}");
}
