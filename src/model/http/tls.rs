//! Whom we trust: the system's certificates, and in addition those that the operator names.
//!
//! `SSL_CERT_FILE`, `SSL_CERT_DIR` and `--ca-file` add to the system's roots and never replace them:
//! a file with nothing but the company proxy's certificate must not break hosts that the proxy
//! leaves alone. A named file that is missing, unreadable or holds no certificate is an error that
//! names the setting.

use super::super::endpoint::Endpoint;
use super::certificate::Explaining;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where distributions keep the bundle of trusted certificates; the first that exists is read.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/ssl/cert.pem",
];

/// A configuration for endpoints without TLS: made without reading anything.
pub(super) fn none() -> (ClientConfig, String) {
    let config = builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    (with_protocols(config), "none".into())
}

/// A configuration that trusts the system and what the endpoint adds, and where that came from.
pub(super) fn trusting(endpoint: &Endpoint) -> Result<(ClientConfig, String), String> {
    let mut roots = RootCertStore::empty();
    let mut sources = Vec::new();
    if let Some(bundle) = BUNDLES.iter().map(Path::new).find(|path| path.is_file()) {
        // The system's own bundle may hold entries that we can not use; those are skipped.
        let found = CertificateDer::pem_file_iter(bundle)
            .map(|iter| iter.filter_map(Result::ok).collect::<Vec<_>>())
            .unwrap_or_default();
        roots.add_parsable_certificates(found);
        sources.push(bundle.display().to_string());
    }
    for (setting, path) in named_files(endpoint) {
        for certificate in read(&setting, &path)? {
            roots.add(certificate).map_err(|error| {
                format!(
                    "{setting}: {} holds a certificate that is not usable: {error}",
                    path.display()
                )
            })?;
        }
        sources.push(format!("{setting} {}", path.display()));
    }
    if let Some(text) = &endpoint.ssl_cert_dir {
        for folder in text.split(':').filter(|folder| !folder.is_empty()) {
            add_folder(Path::new(folder), &mut roots)?;
            sources.push(format!("SSL_CERT_DIR {folder}"));
        }
    }
    if roots.is_empty() {
        return Err(format!(
            "no trusted certificates: none of {} exists; install the distribution's \
             ca-certificates, or name a file by --ca-file or SSL_CERT_FILE",
            BUNDLES.join(", ")
        ));
    }
    let builder = builder();
    let provider = builder.crypto_provider().clone();
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())?;
    let config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Explaining { inner }))
        .with_no_client_auth();
    Ok((with_protocols(config), sources.join(", ")))
}

fn named_files(endpoint: &Endpoint) -> Vec<(String, PathBuf)> {
    let named = [("--ca-file", &endpoint.ca_file), ("SSL_CERT_FILE", &endpoint.ssl_cert_file)];
    named
        .into_iter()
        .filter_map(|(setting, path)| Some((setting.to_owned(), path.clone()?)))
        .collect()
}

fn read(setting: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let fault = |text: String| format!("{setting}: {}: {text}", path.display());
    let bytes = std::fs::read(path).map_err(|error| fault(format!("cannot be read: {error}")))?;
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        found.push(certificate.map_err(|error| fault(format!("is not valid PEM: {error}")))?);
    }
    if found.is_empty() {
        return Err(fault("holds no certificate in PEM form".into()));
    }
    Ok(found)
}

/// A folder holds whatever files the distribution put there; only certificates in it count.
fn add_folder(folder: &Path, roots: &mut RootCertStore) -> Result<(), String> {
    let fault = |text: String| format!("SSL_CERT_DIR: {}: {text}", folder.display());
    let entries =
        std::fs::read_dir(folder).map_err(|error| fault(format!("cannot be read: {error}")))?;
    let mut count = 0;
    for entry in entries.filter_map(Result::ok) {
        let Ok(bytes) = std::fs::read(entry.path()) else { continue };
        let found: Vec<_> = CertificateDer::pem_slice_iter(&bytes).filter_map(Result::ok).collect();
        count += roots.add_parsable_certificates(found).0;
    }
    if count == 0 {
        return Err(fault("holds no certificate in PEM form".into()));
    }
    Ok(())
}

/// The one place that names the cryptographic provider.
fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    match ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
    {
        Ok(builder) => builder,
        // The provider has the suites of both versions, so this can not happen; 1.3 alone is safe.
        Err(_) => ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13]),
    }
}

fn with_protocols(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}
