//! The one place that reads a clock.
//!
//! Wall time is only ever shown (RFC 3339, UTC, `Z`, milliseconds); every duration and every
//! deadline is measured on the monotonic clock, so a clock that is set during a run changes nothing.

use std::time::{Duration, Instant, SystemTime};

/// Now on the monotonic clock.
pub fn now() -> Instant {
    Instant::now()
}

/// The monotonic clock as time since some moment: for a signal's handler, which may call nothing more.
pub fn monotonic() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for one time; the call is allowed in a signal handler, and this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

/// Now on the wall clock, for comparing with times that came from outside (Retry-After, mtime).
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// The wall clock as RFC 3339 in UTC with milliseconds, e.g. `2026-11-29T22:48:21.035Z`.
/// Independent of `TZ`.
pub fn stamp() -> String {
    stamp_of(wall())
}

/// Any wall-clock time in the form of [`stamp`].
pub fn stamp_of(time: SystemTime) -> String {
    let stamp = jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{stamp:.3}")
}

/// Milliseconds since `start`, as every record and event gives durations.
pub fn millis_since(start: Instant) -> u64 {
    millis(now().saturating_duration_since(start))
}

/// A duration in whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A duration for people: `840ms`, `3.2s`, `4m07s`, `1h02m`.
pub fn human(duration: Duration) -> String {
    let total = duration.as_secs();
    match total {
        0 => format!("{}ms", duration.as_millis()),
        1..=59 => format!("{}.{}s", total, duration.subsec_millis() / 100),
        60..=3599 => format!("{}m{:02}s", total / 60, total % 60),
        _ => format!("{}h{:02}m", total / 3600, total / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_utc_with_milliseconds() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_042);
        assert_eq!(stamp_of(time), "2023-11-14T22:13:20.042Z");
    }

    #[test]
    fn durations_for_people() {
        let cases =
            [(5, "5ms"), (999, "999ms"), (1_250, "1.2s"), (247_000, "4m07s"), (3_725_000, "1h02m")];
        for (ms, want) in cases {
            assert_eq!(human(Duration::from_millis(ms)), want);
        }
    }
}
