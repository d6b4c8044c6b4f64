//! What a model is asked: a complete request, compiled and frozen for one sampling.

use super::item::Item;
use super::tool::ToolSpec;
use serde_json::Value;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Items in order, shared: a history and the prompts that are made of it hold the same list, so that
/// a prompt costs nothing however long the history is. Changing one that is shared copies the list
/// (not the items) first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Items(Arc<Vec<Arc<Item>>>);

impl Deref for Items {
    type Target = Vec<Arc<Item>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Items {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Vec<Arc<Item>>> for Items {
    fn from(items: Vec<Arc<Item>>) -> Self {
        Self(Arc::new(items))
    }
}

impl<'a> IntoIterator for &'a Items {
    type Item = &'a Arc<Item>;
    type IntoIter = std::slice::Iter<'a, Arc<Item>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl FromIterator<Arc<Item>> for Items {
    fn from_iter<I: IntoIterator<Item = Arc<Item>>>(items: I) -> Self {
        Self::from(items.into_iter().collect::<Vec<_>>())
    }
}

/// One request. A longer history begins with the bytes of the shorter one: items are shared by
/// `Arc`, so a provider may keep what it encoded for an item and reuse it (compare by pointer).
#[derive(Debug, Clone)]
pub struct Prompt {
    pub instructions: Arc<str>,
    pub items: Items,
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
