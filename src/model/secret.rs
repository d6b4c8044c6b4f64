//! A key that can not be printed by accident.

use std::fmt;
use zeroize::Zeroize;

/// Text that is shown as `[secret]` and wiped from memory when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// White space around a key is never part of it: key files end with a newline.
    pub fn new(mut text: String) -> Self {
        let trimmed = text.trim();
        if trimmed.len() == text.len() {
            return Self(text);
        }
        let secret = Self(trimmed.to_owned());
        text.zeroize();
        secret
    }

    /// The text itself. Every use of this is a place to look at twice.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new("sk-123\n".into());
        assert_eq!(
            format!("{secret} {secret:?} {:?}", Some(&secret)),
            "[secret] [secret] Some([secret])"
        );
        assert_eq!(secret.expose(), "sk-123");
    }
}
