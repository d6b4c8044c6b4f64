//! What the model is told: typed parts, compiled into one prompt.
//!
//! The order is fixed (base instructions, project rules, permissions, environment, task, history) and
//! nothing before the end ever changes within a Turn, so that a longer prompt begins with the bytes of
//! the shorter one. Every fragment has a role, markers, a cap and one renderer.

mod fragments;
mod history;
mod world;

pub use fragments::{
    BASE_INSTRUCTIONS, Cap, EnvironmentFacts, Interruption, budget, check_feedback, environment,
    hook, interruption, live_processes, permissions, project_rules, task, untrusted,
};
pub use history::{History, repaired};
pub use world::{WorldSnapshot, WorldState};

/// The caps of all fragments, in bytes, in one place (they are printed with the defaults).
pub const CAPS: &[(&str, usize)] = &[
    ("project_rules", 32 * 1024),
    ("permissions", 16 * 1024),
    ("environment", 4 * 1024),
    ("world_state", 16 * 1024),
    ("undone", 4 * 1024),
    ("task", 1024 * 1024),
    ("check_feedback", 24 * 1024),
    ("hook", 20 * 1024),
    ("processes", 16 * 1024),
    ("interruption", 16 * 1024),
    ("tool_output", 64 * 1024),
];
