//! Certificates for people: who issued the one that was not trusted, and why it was not.
//!
//! The TLS library says "UnknownIssuer" and no more. Behind a proxy that inspects TLS the name of
//! the issuer is what tells an operator which certificate to add, so it is read from the
//! certificate before the error leaves the verifier.

use super::super::error::clean;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use std::fmt;
use std::sync::Arc;

/// The library's verifier with errors that name names. It decides nothing itself.
#[derive(Debug)]
pub(super) struct Explaining {
    pub inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Explaining {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.inner
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            .map_err(|error| explain(error, end_entity, intermediates))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// A certificate that was not trusted.
#[derive(Debug)]
pub(super) struct Untrusted {
    pub cause: CertificateError,
    /// The name in the server's own certificate.
    pub subject: String,
    /// The issuer of the last certificate that the server sent: the one we would have to know.
    pub issuer: String,
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, issuer, cause } = self;
        match cause {
            CertificateError::UnknownIssuer => {
                write!(
                    f,
                    "its certificate {subject:?} was issued by {issuer:?}, which is not trusted here"
                )
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                write!(f, "its certificate {subject:?} (issued by {issuer:?}) is for another host")
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                write!(f, "its certificate {subject:?} (issued by {issuer:?}) has expired")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                write!(
                    f,
                    "its certificate {subject:?} (issued by {issuer:?}) is not valid yet; check the clock"
                )
            }
            other => write!(
                f,
                "its certificate {subject:?} (issued by {issuer:?}) is not valid: {other}"
            ),
        }
    }
}

impl std::error::Error for Untrusted {}

fn explain(error: Error, end: &CertificateDer<'_>, rest: &[CertificateDer<'_>]) -> Error {
    let Error::InvalidCertificate(cause) = error else { return error };
    let last = rest.last().unwrap_or(end);
    let untrusted = Untrusted {
        cause,
        subject: names(end).map(|(_, subject)| subject).unwrap_or_else(unreadable),
        issuer: names(last).map(|(issuer, _)| issuer).unwrap_or_else(unreadable),
    };
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(untrusted))))
}

fn unreadable() -> String {
    "unreadable".into()
}

/// Issuer and subject of a certificate.
fn names(certificate: &[u8]) -> Option<(String, String)> {
    let mut outer = Der(certificate);
    let mut certificate = Der(outer.field(SEQUENCE)?);
    let mut fields = Der(certificate.field(SEQUENCE)?);
    if fields.0.first() == Some(&VERSION) {
        fields.next()?;
    }
    fields.next()?; // serial number
    fields.next()?; // signature algorithm
    let issuer = name(fields.field(SEQUENCE)?);
    fields.next()?; // validity
    let subject = name(fields.field(SEQUENCE)?);
    Some((issuer, subject))
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const OBJECT_ID: u8 = 0x06;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANISATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The common name and organisation of a distinguished name.
fn name(bytes: &[u8]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut sets = Der(bytes);
    while let Some(set) = sets.field(SET) {
        let mut pairs = Der(set);
        while let Some(pair) = pairs.field(SEQUENCE) {
            let mut pair = Der(pair);
            let id = pair.field(OBJECT_ID);
            let text = pair.next().map(|(_, text)| String::from_utf8_lossy(text).into_owned());
            if matches!(id, Some(COMMON_NAME | ORGANISATION))
                && let Some(text) = text
            {
                parts.push(clean(&text, 80));
            }
        }
    }
    parts.dedup();
    if parts.is_empty() { "no name".into() } else { parts.join(", ") }
}

/// A walk over DER: one tag, one length, its bytes. Anything odd ends it.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first & 0x7f);
        if first & 0x80 != 0 {
            let count = length;
            if count > 4 {
                return None;
            }
            length = 0;
            for _ in 0..count {
                let (&byte, tail) = rest.split_first()?;
                length = length << 8 | usize::from(byte);
                rest = tail;
            }
        }
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, value))
    }

    fn field(&mut self, wanted: u8) -> Option<&'a [u8]> {
        let (tag, value) = self.next()?;
        (tag == wanted).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn element(tag: u8, value: &[u8]) -> Vec<u8> {
        let mut out = vec![tag];
        match u8::try_from(value.len()) {
            Ok(short) if short < 128 => out.push(short),
            _ => {
                let length = u16::try_from(value.len()).unwrap().to_be_bytes();
                out.extend([0x82, length[0], length[1]]);
            }
        }
        out.extend_from_slice(value);
        out
    }

    fn distinguished(parts: &[(&[u8], &str)]) -> Vec<u8> {
        let sets: Vec<Vec<u8>> = parts
            .iter()
            .map(|(id, text)| {
                let pair = [element(OBJECT_ID, id), element(0x0c, text.as_bytes())].concat();
                element(SET, &element(SEQUENCE, &pair))
            })
            .collect();
        element(SEQUENCE, &sets.concat())
    }

    #[test]
    fn issuer_and_subject_are_read() {
        let fields = [
            element(VERSION, &element(2, &[2])),
            element(2, &[1, 2, 3]),
            element(SEQUENCE, &[]),
            distinguished(&[(ORGANISATION, "ACME"), (COMMON_NAME, "ACME Proxy CA")]),
            element(SEQUENCE, &[0; 30]),
            distinguished(&[(COMMON_NAME, "api.example.com")]),
        ]
        .concat();
        let certificate = element(SEQUENCE, &element(SEQUENCE, &fields));
        let found = names(&certificate).unwrap();
        assert_eq!(found, ("ACME, ACME Proxy CA".into(), "api.example.com".into()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = names(&bytes);
            let _ = name(&bytes);
        }
    }
}
