//! How long a provider asks us to wait, in all the forms they use.

use std::time::{Duration, SystemTime};

/// The longest wait that is believed; more than this only means "not today".
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// Response headers by lower-case name.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

/// The wait from headers: `retry-after-ms`, `retry-after` (seconds or an HTTP date), then the reset
/// times of the limits that are used up. `now` is our wall clock; the server's own `Date` is used
/// instead where it is sent, so that a clock that is off changes nothing.
pub(super) fn from_headers(header: Lookup<'_>, now: SystemTime) -> Option<Duration> {
    if let Some(ms) = header("retry-after-ms").and_then(number) {
        return Some(bounded(ms / 1000.0));
    }
    let now = header("date").and_then(|text| httpdate::parse_http_date(text).ok()).unwrap_or(now);
    if let Some(text) = header("retry-after") {
        if let Some(seconds) = number(text) {
            return Some(bounded(seconds));
        }
        if let Ok(date) = httpdate::parse_http_date(text.trim()) {
            return Some(date.duration_since(now).unwrap_or_default().min(LONGEST));
        }
    }
    const LIMITS: [(&str, &str); 6] = [
        ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
        ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
        ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
        ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
        ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
        ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ];
    LIMITS
        .iter()
        .filter(|(remaining, _)| header(remaining).and_then(number).is_none_or(|left| left <= 0.0))
        .filter_map(|(_, reset)| reset_time(header(reset)?, now))
        .max()
}

/// `1s`, `6m0s`, `120ms`, plain seconds, or an RFC 3339 time.
fn reset_time(text: &str, now: SystemTime) -> Option<Duration> {
    if let Some(wait) = compound(text) {
        return Some(wait);
    }
    let at: jiff::Timestamp = text.trim().parse().ok()?;
    let at = SystemTime::UNIX_EPOCH + Duration::try_from(at.as_duration()).ok()?;
    Some(at.duration_since(now).unwrap_or_default().min(LONGEST))
}

/// The wait from an error's text: `try again in 1.152s`, `retry after 20 seconds`.
pub(super) fn from_text(text: &str) -> Option<Duration> {
    // ASCII folding keeps every byte where it is, so positions hold in both texts.
    let folded = text.to_ascii_lowercase();
    for phrase in ["try again in ", "retry after ", "retry in ", "wait for ", "wait "] {
        for (at, _) in folded.match_indices(phrase) {
            let rest = folded.get(at + phrase.len()..).unwrap_or_default();
            if let Some(wait) = spoken(rest) {
                return Some(wait);
            }
        }
    }
    None
}

/// A duration at the start of prose: `1.152s.`, `6m0s`, `20 seconds`, `20ms`.
fn spoken(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(text.len());
    let first = text.get(..end)?.trim_end_matches('.');
    if number(first).is_none() {
        return compound(first);
    }
    let word: String =
        text.get(end..)?.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    let factor = match word.as_str() {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return None,
    };
    Some(bounded(number(first)? * factor))
}

/// Parts of number and unit one after another; a bare number is seconds.
fn compound(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Some(seconds) = number(text) {
        return Some(bounded(seconds));
    }
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let value = number(rest.get(..digits)?)?;
        rest = rest.get(digits..)?;
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        total += value
            * match rest.get(..letters)? {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return None,
            };
        rest = rest.get(letters..)?;
    }
    (!text.is_empty()).then(|| bounded(total))
}

fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

fn bounded(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&str, &str)]) -> Option<Duration> {
        let lookup =
            |name: &str| list.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        from_headers(&lookup, now)
    }

    #[test]
    fn d19_every_header_form() {
        let s = Duration::from_secs;
        let ms = Duration::from_millis;
        type Case<'a> = (&'a [(&'a str, &'a str)], Option<Duration>);
        let cases: &[Case<'_>] = &[
            (&[("retry-after", "2")], Some(s(2))),
            (&[("retry-after", "0.5")], Some(ms(500))),
            (&[("retry-after-ms", "120"), ("retry-after", "2")], Some(ms(120))),
            (&[("retry-after", "86400")], Some(s(86_400))),
            (&[("retry-after", "Sun, 09 Sep 2001 01:46:45 GMT")], Some(s(5))),
            (&[("retry-after", "Sun, 09 Sep 2001 01:46:35 GMT")], Some(s(0))),
            (
                &[
                    ("retry-after", "Sun, 09 Sep 2001 02:00:07 GMT"),
                    ("date", "Sun, 09 Sep 2001 02:00:00 GMT"),
                ],
                Some(s(7)),
            ),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "-1")], None),
            (&[("x-ratelimit-reset-requests", "6m0s")], Some(s(360))),
            (
                &[
                    ("x-ratelimit-remaining-requests", "10"),
                    ("x-ratelimit-reset-requests", "6m0s"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "120ms"),
                ],
                Some(ms(120)),
            ),
            (&[("anthropic-ratelimit-tokens-reset", "2001-09-09T01:46:50Z")], Some(s(10))),
            (&[("retry-after", "99999999999999999999999999")], Some(LONGEST)),
            (&[], None),
        ];
        for (list, want) in cases {
            assert_eq!(headers(list), *want, "{list:?}");
        }
    }

    #[test]
    fn d19_hints_in_texts() {
        let ms = Duration::from_millis;
        let cases = [
            ("Rate limit reached … Please try again in 1.152s. Visit", Some(ms(1152))),
            ("Please try again in 20ms.", Some(ms(20))),
            ("Try again in 6m0s", Some(ms(360_000))),
            ("please retry after 20 seconds", Some(ms(20_000))),
            ("Please retry after 1 minute, then", Some(ms(60_000))),
            ("try again in a while", None),
            ("try again in ", None),
            ("ağır 阴影 try again in 3s", Some(ms(3000))),
            ("", None),
        ];
        for (text, want) in cases {
            assert_eq!(from_text(text), want, "{text:?}");
        }
    }
}
