//! One real response of a real provider, for those who ask for it: `TURNKEY_LIVE_MODEL` names the
//! model (`openai/NAME`), `TURNKEY_LIVE_KEY_FILE` a file with the key, `TURNKEY_LIVE_BASE_URL` the
//! endpoint where it is not the provider's own. It costs a few tokens.

use crate::support::*;
use std::path::PathBuf;
use turnkey::model::{Endpoint, ModelConfig, RetryPolicy, Secret, open};
use turnkey::protocol::{Fragment, Item, Role};

#[test]
fn a_real_model_calls_a_tool_and_takes_its_result() {
    let Ok(reference) = std::env::var("TURNKEY_LIVE_MODEL") else {
        eprintln!("SKIPPED: TURNKEY_LIVE_MODEL names no model, no real provider is asked");
        return;
    };
    let key = std::env::var_os("TURNKEY_LIVE_KEY_FILE")
        .map(|file| Secret::new(std::fs::read_to_string(PathBuf::from(file)).unwrap()));
    let endpoint = Endpoint {
        base_url: std::env::var("TURNKEY_LIVE_BASE_URL").ok(),
        key,
        ..Endpoint::default()
    };
    let model = open(&reference, ModelConfig { endpoint, ..ModelConfig::default() }).unwrap();
    let words = "Call exec_command with cmd set to: echo turnkey-4711. Then repeat its output.";
    let mut prompt = prompt(vec![Item::ours(Role::User, Fragment::Task, words)]);
    let retry = RetryPolicy::default();
    let first = ask_with(&*model, &prompt, &retry).0.unwrap();
    let made = calls(&first);
    assert_eq!(made.len(), 1, "{made:?}");
    assert!(made[0].2.contains("turnkey-4711"), "{made:?}");
    assert!(first.usage.input > 0 && !first.estimated, "{:?}", first.usage);
    prompt.items.extend(first.items.into_iter().map(std::sync::Arc::new));
    prompt.items.push(std::sync::Arc::new(result(&made[0].0, "turnkey-4711", false)));
    let second = ask_with(&*model, &prompt, &retry).0.unwrap();
    assert!(text(&second).contains("turnkey-4711"), "{}", text(&second));
}
