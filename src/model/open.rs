//! From `PROVIDER/NAME` to a model. The one place that knows which providers exist.

use super::endpoint::{Base, Endpoint};
use super::{Model, anthropic, chat, http, openai, scripted};
use std::path::PathBuf;
use std::sync::Arc;

/// The providers by name, with what they are.
pub const PROVIDERS: [(&str, &str); 4] = [
    ("openai", "the Responses API"),
    ("chat", "Chat Completions, for every compatible server"),
    ("anthropic", "the Messages API"),
    ("scripted", "a YAML file of what the model says"),
];

/// Everything a model is opened with, besides its name.
#[derive(Debug, Clone, Default)]
pub struct ModelConfig {
    pub endpoint: Endpoint,
    /// Whether the model takes grammar tools; by a table of model names where `None`.
    pub freeform: Option<bool>,
    /// Whether the provider keeps the history between requests, where it can.
    pub server_state: bool,
}

/// Why a model could not be opened. All of these are faults of what was written, before any request.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("\"{reference}\" names no model: write PROVIDER/NAME, with one of {}", names())]
    Reference { reference: String },
    #[error("there is no provider \"{provider}\"; those that exist are {}", names())]
    UnknownProvider { provider: String },
    #[error("{0}")]
    BaseUrl(String),
    #[error("no key for {host}: name one by model.key (a file, a descriptor or a variable)")]
    NoKey { host: String },
    #[error(
        "{what} can not be sent in a header: it holds a line break or another control character"
    )]
    HeaderValue { what: String },
    #[error("proxy: {0}")]
    Proxy(String),
    #[error("certificates: {0}")]
    Certificates(String),
    #[error("the HTTP client could not be made: {0}")]
    Client(String),
    #[error("cannot read the script {}: {error}", path.display())]
    ScriptFile { path: PathBuf, error: std::io::Error },
    #[error("the script has faults:\n{}", list(.0))]
    Script(Vec<crate::spec::fault::Fault>),
}

impl OpenError {
    /// Dotted and stable, for `result.json`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Reference { .. } => "model.reference",
            Self::UnknownProvider { .. } => "model.provider",
            Self::BaseUrl(_) => "model.base_url",
            Self::NoKey { .. } => "model.no_key",
            Self::HeaderValue { .. } => "model.header",
            Self::Proxy(_) => "model.proxy",
            Self::Certificates(_) => "model.certificates",
            Self::Client(_) => "model.client",
            Self::ScriptFile { .. } | Self::Script(_) => "model.script",
        }
    }
}

fn names() -> String {
    let names: Vec<String> = PROVIDERS.iter().map(|(name, _)| format!("{name}/NAME")).collect();
    names.join(", ")
}

fn list(faults: &[crate::spec::fault::Fault]) -> String {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Opens the model that `reference` names. Nothing is sent; certificates are only read for https.
pub fn open(reference: &str, config: ModelConfig) -> Result<Arc<dyn Model>, OpenError> {
    let (provider, name) = reference
        .split_once('/')
        .filter(|(provider, name)| !provider.is_empty() && !name.trim().is_empty())
        .ok_or_else(|| OpenError::Reference { reference: reference.to_owned() })?;
    match provider {
        "openai" => open_openai(name, &config),
        "chat" => open_chat(name, &config),
        "anthropic" => open_anthropic(name, &config),
        "scripted" => Ok(Arc::new(scripted::open(name, config.endpoint.timeouts)?)),
        _ => Err(OpenError::UnknownProvider { provider: provider.to_owned() }),
    }
}

/// Opens a scripted model whose file was read elsewhere; `file` is how messages name it.
pub fn open_script(
    file: &str,
    text: &str,
    config: ModelConfig,
) -> Result<Arc<dyn Model>, OpenError> {
    let script = scripted::Script::parse(file, text).map_err(OpenError::Script)?;
    Ok(Arc::new(scripted::Scripted::new(file, script, config.endpoint.timeouts)))
}

fn open_openai(name: &str, config: &ModelConfig) -> Result<Arc<dyn Model>, OpenError> {
    let base = base(&config.endpoint, openai::DEFAULT_BASE)?;
    let http = http::Client::new(base, &config.endpoint, http::KeyHeader::Bearer)?;
    Ok(Arc::new(openai::OpenAi::new(name, http, config)))
}

fn open_chat(name: &str, config: &ModelConfig) -> Result<Arc<dyn Model>, OpenError> {
    let base = base(&config.endpoint, chat::DEFAULT_BASE)?;
    let official = base.host() == "api.openai.com";
    let http = http::Client::new(base, &config.endpoint, http::KeyHeader::Bearer)?;
    Ok(Arc::new(chat::Chat::new(name, http, official)))
}

fn open_anthropic(name: &str, config: &ModelConfig) -> Result<Arc<dyn Model>, OpenError> {
    let base = base(&config.endpoint, anthropic::DEFAULT_BASE)?;
    let http = http::Client::new(base, &config.endpoint, http::KeyHeader::Named("x-api-key"))?;
    Ok(Arc::new(anthropic::Anthropic::new(name, http)))
}

/// The endpoint's base; the provider's own one is of no use without a key.
fn base(endpoint: &Endpoint, default: &str) -> Result<Base, OpenError> {
    let text = endpoint.base_url.as_deref().unwrap_or(default);
    let base = Base::parse(text, "the base URL").map_err(OpenError::BaseUrl)?;
    let keyless = endpoint.key.as_ref().is_none_or(super::Secret::is_empty);
    if keyless && endpoint.base_url.is_none() {
        return Err(OpenError::NoKey { host: base.host() });
    }
    Ok(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(reference: &str) -> String {
        open(reference, ModelConfig::default()).err().unwrap().to_string()
    }

    #[test]
    fn an_unknown_provider_names_those_that_exist() {
        assert_eq!(
            error("opnai/x"),
            "there is no provider \"opnai\"; those that exist are openai/NAME, \
             chat/NAME, anthropic/NAME, scripted/NAME"
        );
        for reference in ["", "gpt-5", "openai/", "/x", "openai/ "] {
            assert!(error(reference).contains("write PROVIDER/NAME"), "{reference}");
        }
    }

    #[test]
    fn d07_a_missing_key_is_told_before_any_request() {
        assert!(error("openai/gpt-5").starts_with("no key for api.openai.com"));
    }
}
