//! The model of a run: which one, where, with what key, and what of the spec was meant for another.

use super::check;
use super::defaults;
use super::fault::{At, Fault};
use super::resolve::{Resolver, add, copy, pick, placed, set};
use super::settings::*;
use super::types::*;
use std::path::PathBuf;

impl Resolver<'_> {
    pub(super) fn model(
        &self,
        flags: &FlagValues,
        env: &EnvValues,
        notes: &mut Vec<String>,
        faults: &mut Vec<Fault>,
    ) -> Option<ModelSettings> {
        let own = &self.spec.model;
        let name = self.model_name(flags, env, faults);
        let base_url = base_url(flags, env, faults);
        let name = name?;
        let applies = self.applies(&name.value, notes);
        if let Some(kept) = own.server_state.filter(|kept| kept.value && applies.provider)
            && name.value.provider != "openai"
        {
            faults.push(Fault {
                file: self.spec.file.clone(),
                at: kept.at,
                text: format!("\"model.server_state\" is not possible with {}", name.value),
                hint: "only openai/NAME keeps the history at the provider; leave the key out"
                    .into(),
            });
        }
        let base_dir = match name.source {
            Source::Spec { .. } => self.spec.dir.clone(),
            _ => PathBuf::new(),
        };
        Some(ModelSettings {
            base_dir,
            base_url: pick(base_url, copy(&own.base_url).filter(|_| applies.provider)).optional(),
            key: pick(None, self.own_key().filter(|_| applies.provider)).optional(),
            effort: pick(None, copy(&own.effort).filter(|_| applies.provider)).optional(),
            window: pick(None, copy(&own.window).filter(|_| applies.model)).optional(),
            max_output_tokens: pick(None, copy(&own.max_output_tokens).filter(|_| applies.model))
                .optional(),
            server_state: pick(None, copy(&own.server_state).filter(|_| applies.provider))
                .or(false),
            ca_file: self.path(&flags.ca_file, "--ca-file", &own.ca_file).optional(),
            prices: pick(None, copy(&own.prices).filter(|_| applies.model)).optional(),
            timeout_connect: pick(None, own.timeout_connect).or(defaults::TIMEOUT_CONNECT),
            timeout_first_byte: pick(None, own.timeout_first_byte).or(defaults::TIMEOUT_FIRST_BYTE),
            timeout_idle: pick(None, own.timeout_idle).or(defaults::TIMEOUT_IDLE),
            timeout_total: pick(None, own.timeout_total).optional(),
            retry_attempts: pick(None, own.retry_attempts).or(defaults::RETRY_ATTEMPTS),
            retry_total_wait: pick(None, own.retry_total_wait).or(defaults::RETRY_TOTAL_WAIT),
            name,
        })
    }

    fn model_name(
        &self,
        flags: &FlagValues,
        env: &EnvValues,
        faults: &mut Vec<Fault>,
    ) -> Option<Setting<ModelName>> {
        let given = flags.model.as_deref().map(|text| (text, Source::Flag("--model"), "--model"));
        let from_env = set(&env.model).map(|text| (text, Source::Env(ENV_MODEL), ENV_MODEL));
        if let Some((text, source, name)) = given.or(from_env) {
            return match check::model_name(text) {
                Ok(model) => Some(Setting::new(model, source)),
                Err(why) => {
                    add(faults, name, why, "openai/gpt-5.5, for instance");
                    None
                }
            };
        }
        let own = self.spec.model.model.clone().map(placed);
        if own.is_none() {
            let file = if self.has_spec { &self.spec.file } else { "model" };
            let hint = "give --model PROVIDER/NAME, or model: { use: PROVIDER/NAME } in a spec";
            add(faults, file, "no model is named", hint);
        }
        own
    }

    /// Which of the spec's model keys apply to the chosen model. A key or address written for one
    /// provider is never handed to another, and prices and window belong to one model.
    fn applies(&self, chosen: &ModelName, notes: &mut Vec<String>) -> Applies {
        let own = &self.spec.model;
        let Some(written) = &own.model else { return Applies { provider: true, model: true } };
        let written = &written.value;
        let applies =
            Applies { provider: written.provider == chosen.provider, model: written == chosen };
        let left_out = [
            ("base_url", own.base_url.is_some(), applies.provider),
            ("key", own.key.is_some(), applies.provider),
            ("effort", own.effort.is_some(), applies.provider),
            ("window", own.window.is_some(), applies.model),
            ("max_output_tokens", own.max_output_tokens.is_some(), applies.model),
            ("server_state", own.server_state.is_some(), applies.provider),
            ("prices", own.prices.is_some(), applies.model),
        ];
        for (key, there, applies) in left_out {
            if there && !applies {
                notes.push(format!(
                    "model.{key} of {} is written for {written} and is not used for {chosen}.",
                    self.spec.file
                ));
            }
        }
        applies
    }

    fn own_key(&self) -> Option<Placed<KeyFrom>> {
        let mut key = self.spec.model.key.clone()?;
        if let KeyFrom::File(path) = &key.value {
            key.value = KeyFrom::File(self.spec.dir.join(path));
        }
        Some(key)
    }
}

/// Which of the spec's model keys apply.
struct Applies {
    provider: bool,
    model: bool,
}

fn base_url(
    flags: &FlagValues,
    env: &EnvValues,
    faults: &mut Vec<Fault>,
) -> Option<Setting<String>> {
    let given =
        flags.base_url.as_deref().map(|text| (text, Source::Flag("--base-url"), "--base-url"));
    let from_env = set(&env.base_url).map(|text| (text, Source::Env(ENV_BASE_URL), ENV_BASE_URL));
    let (text, source, name) = given.or(from_env)?;
    match check::url(text) {
        Ok(()) => Some(Setting::new(text.to_owned(), source)),
        Err(why) => {
            add(faults, name, why, "https://host/v1, for instance");
            None
        }
    }
}

/// A limit that could never be reached because nobody knows the price would be a false promise.
pub(super) fn cost_needs_prices(
    limits: &LimitSettings,
    model: &ModelSettings,
    spec: &Spec,
    faults: &mut Vec<Fault>,
) {
    if limits.cost.value.is_none() || model.prices.value.is_some() {
        return;
    }
    let what = format!("a cost limit needs the prices of {}", model.name.value);
    let hint = "write model: { prices: { input: …, output: … } } (per million tokens) in a spec that names this model";
    let (file, at) = match (limits.cost.source, &spec.limits.cost) {
        (Source::Spec { .. }, Some(cost)) => (spec.file.as_str(), cost.at),
        _ => ("--max-cost", At::default()),
    };
    faults.push(Fault { file: file.to_owned(), at, text: what, hint: hint.into() });
}
