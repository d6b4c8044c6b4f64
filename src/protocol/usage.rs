//! Token counts, as the provider reported them.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Tokens of one response, or the sum of many. `cached` is part of `input`, `reasoning` of `output`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
    pub reasoning: u64,
}

impl Usage {
    /// Input and output together: what a token limit counts.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.cached = self.cached.saturating_add(other.cached);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}
