//! The one table from a provider's failure to ours. The code decides; the status only where there
//! is no code that we know, because the same status means "wait" at one time and "pay" at another.

use super::error::{ModelError, ModelErrorKind as Kind, clean};
use super::retry_hint;
use serde_json::Value;
use std::time::{Duration, SystemTime};

/// How much of a provider's text is shown.
const SHOWN: usize = 300;

/// What a provider said about a failure, before it is judged.
#[derive(Debug, Default, Clone)]
pub(super) struct Report {
    pub status: Option<u16>,
    pub code: Option<String>,
    /// The provider's coarser word (`invalid_request_error`), used where the code says nothing.
    pub class: Option<String>,
    pub message: String,
    /// A wait that stands in the error's details.
    pub retry_delay: Option<Duration>,
}

impl Report {
    /// Reads an error object in the shapes that are in use: `{"error": {…}}`, `{"error": "text"}`,
    /// `{"message": …}`, `{"detail": …}`, or the inner object itself.
    pub fn from_json(value: &Value) -> Self {
        // One provider wraps its errors into a list.
        let value = value.get(0).unwrap_or(value);
        let inner = match value.get("error") {
            Some(Value::String(text)) => {
                return Self { message: text.clone(), ..Self::read(value) };
            }
            Some(inner) if !inner.is_null() => inner,
            _ => value,
        };
        Self::read(inner)
    }

    fn read(object: &Value) -> Self {
        let text = |key: &str| match object.get(key) {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let detail = || object.get("detail").filter(|value| !value.is_null()).map(Value::to_string);
        let class = text("type").filter(|class| class != "error");
        Self {
            status: object.get("code").and_then(status_of_code),
            code: text("code"),
            class,
            message: text("message").or_else(|| text("detail")).or_else(detail).unwrap_or_default(),
            retry_delay: retry_delay(object),
        }
    }

    /// Reads the body of a failed answer, whatever it is.
    pub fn from_body(status: u16, body: &str) -> Self {
        let mut report = match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::from_json(&value),
            Err(_) => Self { message: page_text(body), ..Self::default() },
        };
        report.status = Some(status);
        report
    }

    pub fn kind(&self) -> Kind {
        let said = [self.code.as_deref(), self.class.as_deref()];
        let named = |coarse: bool| {
            let names = said.into_iter().flatten().filter(|name| is_coarse(name) == coarse);
            names.into_iter().find_map(by_name)
        };
        // "Invalid request" is said of a missing key too: there the status knows better.
        let kind = named(false)
            .or_else(|| self.status.map(by_status))
            .or_else(|| named(true))
            .unwrap_or(Kind::Server);
        // And the text may know better than both.
        if kind == Kind::InvalidRequest { by_message(&self.message).unwrap_or(kind) } else { kind }
    }

    /// The typed error, with the waiting hints of the text.
    pub fn into_error(self, host: &str) -> ModelError {
        let kind = self.kind();
        let mut error = ModelError::new(kind.clone(), self.sentence(host)).hint(hint(&kind));
        error.retry_after =
            if error.retryable() { retry_hint::from_text(&self.message) } else { None };
        error.retry_after = error.retry_after.or(self.retry_delay);
        error.status = self.status;
        error.code = self.code.or(self.class).map(|code| clean(&code, 80));
        error
    }

    fn sentence(&self, host: &str) -> String {
        let mut text = match self.status {
            Some(status) => format!("{host} answered HTTP {status}"),
            None => format!("{host} reported a failure"),
        };
        let same = self.status.map(|status| status.to_string());
        let code = self.code.as_deref().filter(|code| same.as_deref() != Some(*code));
        if let Some(code) = code.or(self.class.as_deref()) {
            text.push_str(&format!(" ({})", clean(code, 80)));
        }
        let message = clean(&self.message, SHOWN);
        if !message.is_empty() {
            text.push_str(": ");
            text.push_str(message.trim_end_matches('.'));
        }
        text
    }
}

/// Gateways put the status of the server behind them into the code, as a number or as its text.
fn status_of_code(code: &Value) -> Option<u16> {
    let number = match code {
        Value::String(text) => text.parse().ok()?,
        other => other.as_u64()?,
    };
    u16::try_from(number).ok().filter(|status| (300..600).contains(status))
}

/// `details: [{ "retryDelay": "13s" }]`.
fn retry_delay(object: &Value) -> Option<Duration> {
    let details = object.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    retry_hint::from_text(&format!("retry after {delay}"))
}

/// Of a web page only its title says something.
fn page_text(body: &str) -> String {
    if !body.trim_start().starts_with('<') {
        return body.to_owned();
    }
    let title = body.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    title.map(|(title, _)| title.to_owned()).unwrap_or_default()
}

/// Adds what the headers of a failed answer say.
pub(super) fn with_headers(
    mut error: ModelError,
    header: retry_hint::Lookup<'_>,
    now: SystemTime,
) -> ModelError {
    error.request_id = request_id(header);
    if header("x-should-retry").is_some_and(|text| text.eq_ignore_ascii_case("false")) {
        error = error.final_word();
    }
    if error.retryable() {
        error.retry_after = retry_hint::from_headers(header, now).or(error.retry_after);
    }
    error
}

/// The provider's id of an answer, under the names in use.
pub(super) fn request_id(header: retry_hint::Lookup<'_>) -> Option<String> {
    ["x-request-id", "request-id", "x-amzn-requestid", "apim-request-id"]
        .into_iter()
        .find_map(header)
        .map(|id| clean(id, 120))
}

/// Names that say only that something about the request was not right.
fn is_coarse(name: &str) -> bool {
    matches!(name, "invalid_request_error" | "invalid_request" | "bad_request" | "BadRequestError")
}

fn by_name(name: &str) -> Option<Kind> {
    Some(match name.to_ascii_lowercase().as_str() {
        "invalid_api_key"
        | "incorrect_api_key"
        | "invalid_authentication"
        | "no_api_key"
        | "missing_api_key"
        | "invalid_organization"
        | "unsupported_country_region_territory"
        | "account_deactivated"
        | "organization_deactivated"
        | "permission_denied"
        | "authentication_error"
        | "permission_error"
        | "unauthorized"
        | "forbidden"
        | "ip_not_authorized"
        | "access_denied" => Kind::Auth,
        "insufficient_quota"
        | "quota_exceeded"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "billing_error"
        | "insufficient_funds"
        | "insufficient_balance"
        | "credit_balance_too_low"
        | "payment_required"
        | "usage_limit_reached"
        | "usage_not_included"
        | "exceeded_current_quota_error" => Kind::Quota,
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "rate_limited"
        | "too_many_requests"
        | "rate_limit_reached"
        | "concurrency_limit_exceeded"
        | "throttling_error" => Kind::RateLimited,
        "overloaded_error"
        | "overloaded"
        | "server_is_overloaded"
        | "slow_down"
        | "engine_overloaded"
        | "engine_overloaded_error"
        | "service_unavailable"
        | "service_unavailable_error"
        | "capacity_exceeded"
        | "model_overloaded" => Kind::Overloaded,
        "server_error"
        | "internal_error"
        | "internal_server_error"
        | "api_error"
        | "bad_gateway"
        | "gateway_timeout"
        | "timeout"
        | "timeout_error"
        | "request_timeout"
        | "upstream_error"
        | "vector_store_timeout" => Kind::Server,
        "context_length_exceeded"
        | "context_window_exceeded"
        | "max_tokens_exceeded"
        | "request_too_large"
        | "string_above_max_length"
        | "model_context_window_exceeded"
        | "exceed_context_size_error"
        | "contextwindowexceedederror" => Kind::ContextExceeded,
        "content_filter"
        | "content_policy_violation"
        | "responsibleaipolicyviolation"
        | "cyber_policy_violation"
        | "bio_policy"
        | "safety" => Kind::ContentFiltered,
        "invalid_request_error"
        | "invalid_request"
        | "invalid_prompt"
        | "invalid_value"
        | "invalid_type"
        | "unsupported_parameter"
        | "unsupported_value"
        | "unknown_parameter"
        | "missing_required_parameter"
        | "invalid_function_parameters"
        | "invalid_json_schema"
        | "model_not_found"
        | "not_found_error"
        | "not_found"
        | "deploymentnotfound"
        | "unsupported_model"
        | "bad_request" => Kind::InvalidRequest,
        _ => return None,
    })
}

/// The text of a refused request, where no code says what is wrong with it.
fn by_message(message: &str) -> Option<Kind> {
    let text = message.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    if says(&[
        "prompt is too long",
        "maximum context length",
        "contextwindowexceeded",
        "context window",
        "context length",
        "context size",
        "too many tokens",
        "input is too long",
    ]) {
        return Some(Kind::ContextExceeded);
    }
    if says(&["credit balance", "billing", "exceeded your current quota"]) {
        return Some(Kind::Quota);
    }
    if says(&["content management policy", "content policy", "content filter"]) {
        return Some(Kind::ContentFiltered);
    }
    if says(&["api key", "api-key"]) && says(&["invalid", "incorrect", "missing", "no "]) {
        return Some(Kind::Auth);
    }
    None
}

fn by_status(status: u16) -> Kind {
    match status {
        401 | 403 => Kind::Auth,
        402 => Kind::Quota,
        408 | 409 | 425 => Kind::Server,
        413 => Kind::ContextExceeded,
        429 => Kind::RateLimited,
        503 | 529 => Kind::Overloaded,
        300..=499 => Kind::InvalidRequest,
        _ => Kind::Server,
    }
}

fn hint(kind: &Kind) -> &'static str {
    match kind {
        Kind::Auth => "check the key (model.key) and that its account may use this model",
        Kind::Quota => "the account has no quota left: add credit or raise its limit",
        Kind::RateLimited => "lower the concurrency, or raise model.retries",
        Kind::Overloaded | Kind::Server => "start again later, or raise model.retries",
        Kind::InvalidRequest => "check the model's name, model.base_url and the provider's limits",
        Kind::ContextExceeded => {
            "set model.window to what the model takes, or give it less to read"
        }
        Kind::ContentFiltered => "the provider's filter decided; a different wording may pass",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> Kind {
        Report::from_body(status, body).kind()
    }

    #[test]
    fn d20_the_code_decides_before_the_status() {
        let cases = [
            (
                429,
                r#"{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}"#,
                Kind::Quota,
            ),
            (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, Kind::RateLimited),
            (429, r#"{"error":{"type":"tokens","message":"x"}}"#, Kind::RateLimited),
            (429, "slow down", Kind::RateLimited),
            (400, r#"{"error":{"code":"context_length_exceeded"}}"#, Kind::ContextExceeded),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 10"}}"#,
                Kind::ContextExceeded,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 3 > 2"}}"#,
                Kind::ContextExceeded,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
                Kind::Quota,
            ),
            (400, r#"{"error":{"code":"unsupported_parameter"}}"#, Kind::InvalidRequest),
            (401, "", Kind::Auth),
            (
                401,
                r#"{"error":{"type":"invalid_request_error","code":null,"message":"You sent none"}}"#,
                Kind::Auth,
            ),
            (500, r#"{"error":{"code":"unsupported_parameter"}}"#, Kind::InvalidRequest),
            (403, "<html>", Kind::Auth),
            (404, r#"{"error":{"code":"model_not_found"}}"#, Kind::InvalidRequest),
            (402, "", Kind::Quota),
            (500, r#"{"error":{"code":null,"type":"server_error"}}"#, Kind::Server),
            (503, "", Kind::Overloaded),
            (529, r#"{"type":"error","error":{"type":"overloaded_error"}}"#, Kind::Overloaded),
            (302, "", Kind::InvalidRequest),
            (418, r#"{"detail":"teapot"}"#, Kind::InvalidRequest),
            (599, "", Kind::Server),
        ];
        for (status, body, want) in cases {
            assert_eq!(kind(status, body), want, "{status} {body}");
        }
    }

    #[test]
    fn errors_in_the_forms_of_many_servers() {
        let read = |body: &str| {
            let value: Value = serde_json::from_str(body).unwrap();
            Report::from_json(&value).into_error("h")
        };
        let list = r#"[{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED",
            "details":[{"a":1},{"retryDelay":"13s"}]}}]"#;
        let error = read(list);
        assert_eq!(
            (error.kind.clone(), error.retry_after),
            (Kind::RateLimited, Some(Duration::from_secs(13)))
        );
        let flat = r#"{"object":"error","message":"This model's maximum context length is 9",
            "type":"BadRequestError","code":400}"#;
        assert_eq!(read(flat).kind, Kind::ContextExceeded);
        assert_eq!(read(r#"{"error":{"code":"503","message":"x"}}"#).kind, Kind::Overloaded);
        assert_eq!(
            read(r#"{"error":"no such model"}"#).message,
            "h reported a failure: no such model"
        );
        let page =
            Report::from_body(502, "<html><head><title>502 Bad Gateway</title>").into_error("h");
        assert_eq!(page.message, "h answered HTTP 502: 502 Bad Gateway");
    }

    #[test]
    fn a_failure_in_one_sentence() {
        let report = Report::from_body(
            429,
            r#"{"error":{"message":"Limit reached.\nPlease try again in 1.5s.","code":"rate_limit_exceeded"}}"#,
        );
        let error = report.into_error("api.example.com");
        assert_eq!(
            error.message,
            "api.example.com answered HTTP 429 (rate_limit_exceeded): \
             Limit reached. Please try again in 1.5s"
        );
        assert_eq!(error.retry_after, Some(std::time::Duration::from_millis(1500)));
        assert_eq!(Report::from_body(500, "").into_error("h").message, "h answered HTTP 500");
    }
}
