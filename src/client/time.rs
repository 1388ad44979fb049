//! Times and durations as an operator writes and reads them.

use std::str::FromStr;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The accepted forms, for messages.
pub const FORMS: &str = "now, earliest, latest, -2h, \"90m ago\", epoch seconds or milliseconds, RFC 3339, \
     \"YYYY-MM-DD[ HH:MM[:SS[.mmm]]]\", or yyyy-MM-dd#HH:mm:ss:SSS";

/// The forms of a point in time, for messages.
pub const FORMS_OF_POINTS: &str = "now, -2h, \"90m ago\", epoch seconds or milliseconds, RFC 3339, \
     \"YYYY-MM-DD[ HH:MM[:SS[.mmm]]]\", or yyyy-MM-dd#HH:mm:ss:SSS";

/// A point in time, or an end of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// The oldest message there is.
    Earliest,
    /// The end.
    Latest,
    /// Now, when the command runs.
    Now,
    /// That long before now.
    Before(Duration),
    /// Epoch ms.
    At(i64),
    /// A wall-clock time without a zone.
    Civil(DateTime),
}

impl When {
    /// Epoch ms of a point in time; `None` for [`When::Earliest`] and [`When::Latest`].
    pub fn at_ms(&self, now_ms: i64, zone: &Zone) -> Result<Option<i64>, String> {
        Ok(Some(match self {
            Self::Earliest | Self::Latest => return Ok(None),
            Self::Now => now_ms,
            Self::Before(span) => now_ms.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
            Self::At(ms) => *ms,
            Self::Civil(civil) => zone
                .get()
                .to_timestamp(*civil)
                .map_err(|e| e.to_string())?
                .as_millisecond(),
        }))
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = || format!("\"{text}\" is not a time; use {FORMS}");
        match text.to_ascii_lowercase().as_str() {
            "now" => return Ok(Self::Now),
            "earliest" => return Ok(Self::Earliest),
            "latest" => return Ok(Self::Latest),
            _ => {}
        }
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            let number: i64 = text.parse().map_err(|_| wrong())?;
            // Seconds reach the year 5138 before they look like milliseconds of 1973.
            return Ok(Self::At(if number < 100_000_000_000 {
                number * 1000
            } else {
                number
            }));
        }
        if let Some(span) = text
            .strip_prefix('-')
            .or_else(|| text.strip_suffix("ago").map(str::trim_end))
        {
            return parse_duration(span).map(Self::Before).map_err(|_| wrong());
        }
        if let Ok(at) = text.parse::<Timestamp>() {
            return Ok(Self::At(at.as_millisecond()));
        }
        if text.contains('#') {
            // mqadmin: milliseconds behind a colon.
            let (head, millis) = text.rsplit_once(':').ok_or_else(wrong)?;
            let millis: i32 = millis.parse().map_err(|_| wrong())?;
            let civil = DateTime::strptime("%Y-%m-%d#%H:%M:%S", head).map_err(|_| wrong())?;
            let civil = civil
                .checked_add(SignedDuration::from_millis(millis.into()))
                .map_err(|_| wrong())?;
            return Ok(Self::Civil(civil));
        }
        let civil = if text.len() == 10 {
            text.parse::<jiff::civil::Date>()
                .map(|date| date.at(0, 0, 0, 0))
                .map_err(|_| wrong())?
        } else if text.len() == 16 {
            format!("{text}:00").parse().map_err(|_| wrong())?
        } else {
            text.parse().map_err(|_| wrong())?
        };
        Ok(Self::Civil(civil))
    }
}

/// The zone in which wall-clock times are read and written. The system's zone is looked up on first use only.
#[derive(Debug, Default)]
pub struct Zone {
    utc: bool,
    zone: std::sync::OnceLock<TimeZone>,
}

impl Zone {
    /// UTC, or the system's zone.
    pub fn new(utc: bool) -> Self {
        Self {
            utc,
            zone: std::sync::OnceLock::new(),
        }
    }

    /// A zone that is known already.
    pub fn of(zone: TimeZone) -> Self {
        Self {
            utc: false,
            zone: zone.into(),
        }
    }

    /// The same zone once more.
    pub fn again(&self) -> Self {
        Self {
            utc: self.utc,
            zone: self.zone.clone(),
        }
    }

    fn get(&self) -> &TimeZone {
        self.zone.get_or_init(|| {
            if self.utc {
                TimeZone::UTC
            } else {
                TimeZone::system()
            }
        })
    }

    /// `YYYY-MM-DD HH:MM:SS.mmm`.
    pub fn text(&self, ms: i64) -> Option<String> {
        let at = Timestamp::from_millisecond(ms).ok()?;
        let zoned = at.to_zoned_datetime(self.get().clone());
        Some(zoned.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string())
    }
}

/// RFC 3339 in UTC.
pub fn rfc3339(ms: i64) -> Option<String> {
    let at = Timestamp::from_millisecond(ms).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

/// Epoch ms now.
pub fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// `500ms`, `30s`, `2h`, `3d`, and what jiff calls friendly. A bare number is refused: its unit is unknown.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let wrong = || format!("\"{text}\" is not a duration; use forms such as 500ms, 30s, 2h, 3d");
    // A day is 24 h here, which the friendly grammar of an absolute duration leaves out.
    if let Some((days, rest)) = text.split_once('d')
        && let Ok(days) = days.parse::<u64>()
    {
        let days = days.checked_mul(86_400).map(Duration::from_secs);
        let rest = match rest {
            "" => Ok(Duration::ZERO),
            rest => parse_duration(rest),
        };
        return days
            .and_then(|days| days.checked_add(rest.ok()?))
            .ok_or_else(wrong);
    }
    let span: SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(span).map_err(|_| wrong())
}

/// A duration in at most two units: `41s`, `2m 5s`, `3h 2m`, `12ms`.
pub fn duration(span: Duration) -> String {
    let ms = span.as_millis();
    let s = span.as_secs();
    match s {
        0 => format!("{ms}ms"),
        1..10 if !ms.is_multiple_of(1000) => format!("{:.1}s", span.as_secs_f64()),
        1..60 => format!("{s}s"),
        60..3600 => two(s / 60, "m", s % 60, "s"),
        3600..86_400 => two(s / 3600, "h", s % 3600 / 60, "m"),
        _ => two(s / 86_400, "d", s % 86_400 / 3600, "h"),
    }
}

fn two(big: u64, big_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{big}{big_unit}")
    } else {
        format!("{big}{big_unit} {small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> Option<i64> {
        let when: When = text.parse().unwrap();
        when.at_ms(1_000_000_000_000, &Zone::new(true)).unwrap()
    }

    #[test]
    fn every_documented_form_is_read() {
        // 2026-11-29 17:33:48 UTC is 1795973628 s after the epoch.
        for text in [
            "1795973628",
            "1795973628000",
            "2026-11-29T17:33:48Z",
            "2026-11-29T18:33:48+01:00",
            "2026-11-29 17:33:48",
            "2026-11-29 17:33:48.000",
            "2026-11-29#17:33:48:000",
        ] {
            assert_eq!(ms(text), Some(1_795_973_628_000), "{text}");
        }
        assert_eq!(ms("2026-11-29#17:33:48:318"), Some(1_795_973_628_318));
        assert_eq!(ms("2026-11-29 17:33"), Some(1_795_973_580_000));
        assert_eq!(ms("2026-11-29"), Some(1_795_910_400_000));
        assert_eq!(ms("now"), Some(1_000_000_000_000));
        assert_eq!(ms("-2h"), Some(1_000_000_000_000 - 7_200_000));
        assert_eq!(ms("90m ago"), Some(1_000_000_000_000 - 5_400_000));
        assert_eq!(ms("earliest"), None);
    }

    #[test]
    fn a_wrong_time_names_the_forms() {
        for text in [
            "",
            "yesterday",
            "2026-13-01",
            "-x",
            "99999999999999999999",
            "2026-11-29#1",
        ] {
            let error = text.parse::<When>().unwrap_err();
            assert!(error.contains("RFC 3339"), "{text}: {error}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("3d"), Ok(Duration::from_secs(259_200)));
        assert_eq!(parse_duration("1d 1h"), Ok(Duration::from_secs(90_000)));
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert!(parse_duration("5").is_err());
        assert!(parse_duration("-5s").is_err());
    }

    #[test]
    fn a_duration_shows_two_units_at_most() {
        for (ms, text) in [
            (12, "12ms"),
            (1_500, "1.5s"),
            (41_000, "41s"),
            (125_000, "2m 5s"),
            (7_200_000, "2h"),
            (90_000_000, "1d 1h"),
        ] {
            assert_eq!(duration(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn times_are_written_with_milliseconds() {
        let zone = Zone::new(true);
        assert_eq!(zone.text(1_795_973_628_318).unwrap(), "2026-11-29 17:33:48.318");
        assert_eq!(rfc3339(1_795_973_628_318).unwrap(), "2026-11-29T17:33:48.318Z");
    }
}
