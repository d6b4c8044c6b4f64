//! The one place that reads the environment.
//!
//! Everything else gets values handed down. The model's key is taken out of the runner's own
//! environment block on the way, so that no child and no reader of /proc finds it there.

use crate::model::{ProxySetting, ProxySettings, Secret};
use crate::spec::{ENV_BASE_URL, ENV_COLOR, ENV_MODEL, ENV_OUTPUT, EnvValues};
use std::path::PathBuf;

/// A variable that is set to something.
pub fn get(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The variables that have a say in a run's settings.
pub fn values() -> EnvValues {
    EnvValues {
        model: get(ENV_MODEL),
        base_url: get(ENV_BASE_URL),
        output: get(ENV_OUTPUT),
        color: get(ENV_COLOR),
        no_color: get("NO_COLOR").is_some(),
    }
}

pub fn home() -> Option<PathBuf> {
    get("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

/// Where runs are kept unless HOME or XDG_STATE_HOME say otherwise.
pub fn state_folder() -> Option<PathBuf> {
    let named = get("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| home().map(|home| home.join(".local/state"))).map(|base| base.join("turnkey"))
}

pub fn path() -> Option<String> {
    get("PATH")
}

/// Files by which a CI host takes commands from its steps: nothing that runs here may write them.
pub fn ci_command_files() -> Vec<PathBuf> {
    ["GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"]
        .into_iter()
        .filter_map(get)
        .map(PathBuf::from)
        .collect()
}

pub fn under_github() -> bool {
    get("GITHUB_ACTIONS").as_deref() == Some("true")
}

/// Where a step of GitHub Actions puts its outputs and its summary; nothing elsewhere.
pub fn github_files() -> (Option<PathBuf>, Option<PathBuf>) {
    let file = |name: &str| get(name).filter(|_| under_github()).map(PathBuf::from);
    (file("GITHUB_OUTPUT"), file("GITHUB_STEP_SUMMARY"))
}

/// The proxy variables as they stand, both cases.
pub fn proxies() -> ProxySettings {
    let setting = |names: [&str; 2]| {
        names.into_iter().find_map(|name| get(name).map(|value| ProxySetting::new(name, value)))
    };
    ProxySettings {
        https: setting(["https_proxy", "HTTPS_PROXY"]),
        // Upper case alone is what a CGI server makes of a client's Proxy header.
        http: setting([
            "http_proxy",
            if get("REQUEST_METHOD").is_some() { "http_proxy" } else { "HTTP_PROXY" },
        ]),
        all: setting(["all_proxy", "ALL_PROXY"]),
        no_proxy: get("no_proxy").or_else(|| get("NO_PROXY")),
    }
}

/// Takes a secret out of the environment: the value comes back, the variable is gone, and the bytes
/// in the block that the kernel shows in /proc/PID/environ are overwritten.
pub fn take_secret(name: &str) -> Option<Secret> {
    let value = get(name)?;
    wipe(name);
    Some(Secret::new(value))
}

#[cfg(unix)]
fn wipe(name: &str) {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: the threads that run by then (of the streams, of signals) read no environment. getenv
    // points into the block the kernel laid out at exec, or into a copy of libc's own; overwriting the
    // value's bytes in place keeps the terminating NUL, and the variable is removed right after.
    unsafe {
        let Ok(c_name) = std::ffi::CString::new(name) else { return };
        let value = libc::getenv(c_name.as_ptr());
        if !value.is_null() {
            let length =
                std::ffi::OsStr::from_bytes(std::ffi::CStr::from_ptr(value).to_bytes()).len();
            std::ptr::write_bytes(value, b'x', length);
        }
        std::env::remove_var(name);
    }
}

/// Values of variables that look like secrets by their name: masked wherever text leaves the runner.
pub fn likely_secrets() -> Vec<(String, String)> {
    const MARKS: [&str; 8] =
        ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "COOKIE", "PAT"];
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| {
            let name = name.to_ascii_uppercase();
            let words: Vec<&str> = name.split('_').collect();
            MARKS.iter().any(|mark| {
                words.iter().any(|word| word == mark || (mark.len() > 3 && word.ends_with(mark)))
            })
        })
        .collect()
}

/// A fault to put in, in builds for tests only: `tool_panic` breaks `exec_command`, `runner_panic` the
/// runner itself.
pub fn fault() -> Option<String> {
    if cfg!(debug_assertions) { get("TURNKEY_FAULT") } else { None }
}
