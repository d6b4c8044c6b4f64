//! The task spec: what a person wrote, read whole, checked whole, with every fault placed.
//!
//! `parse` reads a file's text into a `Spec`; `resolve` puts flags, environment, spec and defaults
//! together into `Settings`, each value with its source. Nothing here touches the disk, the
//! environment or the clock: what must be looked up is the caller's.

mod check;
pub mod defaults;
pub mod fault;
mod inputs;
mod keys;
mod params;
mod parse;
mod parse_hooks;
mod parse_model;
mod parse_params;
mod read;
mod recorded;
mod resolve;
mod resolve_model;
mod schema;
mod settings;
mod show;
mod template;
mod types;
pub mod yaml;

#[cfg(test)]
mod tests;

pub use fault::{At, Fault, Faults};
pub use inputs::{InputText, is_invisible, render_inputs, strip_invisible};
pub use keys::{ReferenceRow, reference};
pub use parse::parse;
pub use recorded::{recorded_flags, recorded_spec};
pub use resolve::{resolve, resolve_model};
pub use schema::schema;
pub use settings::{
    Check, Color, ENV_BASE_URL, ENV_COLOR, ENV_MODEL, ENV_OUTPUT, EnvValues, FlagValues, Hook,
    LimitSettings, ModelSettings, SandboxMode, Setting, Settings, Source, TaskSource,
};
pub use show::Row;
pub use types::{
    CheckSpec, Container, ContainerFrom, ContainerRuntime, Environment, Expect, HookPoint,
    HookSpec, Input, InputFrom, Isolate, KeyFrom, LimitsSpec, ModelName, ModelSpec, Named, Param,
    ParamKind, Placed, Prices, Spec, TaskText, VerifySpec,
};
