//! What a model is asked: a complete request, compiled and frozen for one sampling.

use super::item::Item;
use super::tool::ToolSpec;
use serde_json::Value;
use std::sync::Arc;

/// One request. A longer history begins with the bytes of the shorter one: items are shared by
/// `Arc`, so a provider may keep what it encoded for an item and reuse it (compare by pointer).
#[derive(Debug, Clone)]
pub struct Prompt {
    pub instructions: Arc<str>,
    pub items: Vec<Arc<Item>>,
    pub tools: Arc<[ToolSpec]>,
    pub options: PromptOptions,
    /// SHA-256 (hex) over everything above but volatile fragments: the key of recordings.
    pub fingerprint: String,
}

/// Knobs of a request that are the same for all of a Turn's requests.
#[derive(Debug, Clone, Default)]
pub struct PromptOptions {
    /// Groups requests that share a prefix at the provider.
    pub cache_key: String,
    /// Reasoning effort in the provider's words.
    pub effort: Option<String>,
    /// Upper bound of output tokens for this request.
    pub max_output_tokens: Option<u64>,
    /// JSON Schema of the final message.
    pub output_schema: Option<Arc<Value>>,
}
