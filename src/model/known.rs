//! What is known of models by their names. Nothing depends on an unknown name being here: what is
//! not known is left to the provider, or to the operator's settings.

/// The most output tokens that a model of the GPT and o families gives.
pub(super) fn max_output_tokens(model: &str) -> Option<u64> {
    const FAMILIES: [(&str, u64); 8] = [
        ("gpt-5-chat", 16_384),
        ("gpt-5", 128_000),
        ("gpt-4.1", 32_768),
        ("gpt-4o", 16_384),
        ("codex-mini", 100_000),
        ("o1", 100_000),
        ("o3", 100_000),
        ("o4", 100_000),
    ];
    let family = FAMILIES.iter().find(|(family, _)| model.starts_with(family));
    family.map(|(_, tokens)| *tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_have_a_bound() {
        assert_eq!(max_output_tokens("gpt-5.5"), Some(128_000));
        assert_eq!(max_output_tokens("gpt-5-chat-latest"), Some(16_384));
        assert_eq!(max_output_tokens("gpt-4o-mini"), Some(16_384));
        assert_eq!(max_output_tokens("qwen3"), None);
        assert_eq!(max_output_tokens("org/gpt-5"), None);
    }
}
