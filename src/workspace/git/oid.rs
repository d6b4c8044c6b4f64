//! Object ids, in both hashes that git has.

use sha1::{Digest, Sha1};
use sha2::Sha256;

/// Which hash a repository names its objects by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ObjectFormat {
    #[default]
    Sha1,
    Sha256,
}

impl ObjectFormat {
    /// Bytes of an id.
    pub fn width(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// The id of an object whose content is all here.
    pub fn id_of(self, kind: &str, content: &[u8]) -> Oid {
        let mut hasher = ObjectHasher::new(self, kind, content.len() as u64);
        hasher.update(content);
        hasher.finish()
    }
}

/// One object id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Oid {
    bytes: [u8; 32],
    len: u8,
}

impl Oid {
    /// From its raw bytes, which must be as many as one of the two hashes has.
    pub fn from_bytes(raw: &[u8]) -> Option<Self> {
        if raw.len() != 20 && raw.len() != 32 {
            return None;
        }
        let mut bytes = [0; 32];
        bytes.get_mut(..raw.len())?.copy_from_slice(raw);
        Some(Self { bytes, len: raw.len() as u8 })
    }

    /// From its hexadecimal form.
    pub fn from_hex(text: &[u8]) -> Option<Self> {
        if text.len() != 40 && text.len() != 64 {
            return None;
        }
        let digit = |byte: u8| (byte as char).to_digit(16).map(|value| value as u8);
        let mut raw = Vec::with_capacity(32);
        for pair in text.chunks_exact(2) {
            raw.push(digit(pair[0])? << 4 | digit(pair[1])?);
        }
        Self::from_bytes(&raw)
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&self.bytes)
    }

    pub fn hex(&self) -> String {
        self.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn format(&self) -> ObjectFormat {
        if self.len == 20 { ObjectFormat::Sha1 } else { ObjectFormat::Sha256 }
    }
}

impl std::fmt::Debug for Oid {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.hex())
    }
}

impl std::fmt::Display for Oid {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.hex())
    }
}

/// Hashes an object whose content comes in pieces.
pub(crate) enum ObjectHasher {
    Sha1(Sha1),
    Sha256(Sha256),
}

impl ObjectHasher {
    pub(crate) fn new(format: ObjectFormat, kind: &str, size: u64) -> Self {
        let header = format!("{kind} {size}\0");
        let mut hasher = match format {
            ObjectFormat::Sha1 => Self::Sha1(Sha1::new()),
            ObjectFormat::Sha256 => Self::Sha256(Sha256::new()),
        };
        hasher.update(header.as_bytes());
        hasher
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(inner) => inner.update(bytes),
            Self::Sha256(inner) => inner.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Oid {
        let mut bytes = [0; 32];
        match self {
            Self::Sha1(inner) => {
                bytes[..20].copy_from_slice(&inner.finalize());
                Oid { bytes, len: 20 }
            }
            Self::Sha256(inner) => {
                bytes.copy_from_slice(&inner.finalize());
                Oid { bytes, len: 32 }
            }
        }
    }
}

/// The checksum at the end of an index: over the bytes themselves, without an object's header.
pub(crate) fn checksum(format: ObjectFormat, bytes: &[u8]) -> Vec<u8> {
    match format {
        ObjectFormat::Sha1 => Sha1::digest(bytes).to_vec(),
        ObjectFormat::Sha256 => Sha256::digest(bytes).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_known_objects() {
        let empty = ObjectFormat::Sha1.id_of("blob", b"");
        assert_eq!(empty.hex(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        let empty = ObjectFormat::Sha256.id_of("blob", b"");
        assert_eq!(empty.hex(), "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813");
    }

    #[test]
    fn hex_goes_both_ways_and_refuses_the_rest() {
        let text = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
        assert_eq!(Oid::from_hex(text.as_bytes()).expect("an id").hex(), text);
        for bad in ["", "e69d", "g69de29bb2d1d6434b8b29ae775ad8c2e48c5391"] {
            assert!(Oid::from_hex(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
