//! A certificate authority of the test's own, made with the `openssl` command.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// An authority, and a server certificate of it for loopback and `model.example`.
pub struct Authority {
    folder: tempfile::TempDir,
}

impl Authority {
    pub fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let authority = Self { folder };
        let names = "subjectAltName=DNS:model.example,DNS:localhost,IP:127.0.0.1";
        std::fs::write(authority.path("leaf.ext"), names).unwrap();
        let commands = [
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout ca.key \
             -out ca.pem -addext basicConstraints=critical,CA:TRUE -subj /O=Acme/CN=Acme-Inspection-CA",
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout leaf.key -out leaf.csr \
             -subj /CN=model.example",
            "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
             -extfile leaf.ext -out leaf.pem",
        ];
        for command in commands {
            let done = Command::new("openssl")
                .args(command.split_whitespace())
                .current_dir(authority.folder.path())
                .output();
            let Ok(done) = done else {
                eprintln!("SKIPPED: no openssl command here, TLS is not tested");
                return None;
            };
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        Some(authority)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn server_config(&self) -> Arc<rustls::ServerConfig> {
        Arc::new(self.config())
    }

    /// The same for a server that speaks HTTP/2.
    pub fn http2_config(&self) -> Arc<rustls::ServerConfig> {
        let mut config = self.config();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }

    fn config(&self) -> rustls::ServerConfig {
        let certificate = CertificateDer::from_pem_file(self.path("leaf.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.path("leaf.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap()
    }
}
