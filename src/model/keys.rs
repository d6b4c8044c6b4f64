//! Where a provider's key is looked for when neither spec nor flag says so.

/// The environment variable that the provider's own documentation names for its key.
pub fn default_key_variable(provider: &str) -> Option<&'static str> {
    match provider {
        "openai" | "chat" => Some("OPENAI_API_KEY"),
        "anthropic" => Some("ANTHROPIC_API_KEY"),
        _ => None,
    }
}
