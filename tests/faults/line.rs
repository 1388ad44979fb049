//! The one line that a fault prints.

use std::fmt::{self, Display, Write as _};

/// `F1 seed=S key=value ... PASS|FAIL`; figures that miss their bar are named behind FAIL.
pub struct Line {
    text: String,
    missed: Vec<String>,
}

impl Line {
    pub fn new(name: &str, seed: u64) -> Self {
        Self {
            text: format!("{name} seed={seed}"),
            missed: Vec::new(),
        }
    }

    /// A figure without a bar.
    pub fn figure(mut self, key: &str, value: impl Display) -> Self {
        let _ = write!(self.text, " {key}={value}");
        self
    }

    /// A figure that must hold.
    pub fn bar(mut self, key: &str, value: impl Display, holds: bool) -> Self {
        if !holds {
            self.missed.push(key.to_owned());
        }
        self.figure(key, value)
    }

    /// A count that must be zero.
    pub fn none(self, key: &str, count: u64) -> Self {
        self.bar(key, count, count == 0)
    }

    pub fn is_passed(&self) -> bool {
        self.missed.is_empty()
    }
}

impl Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.missed.is_empty() {
            write!(f, "{} PASS", self.text)
        } else {
            write!(f, "{} FAIL ({})", self.text, self.missed.join(" "))
        }
    }
}

/// The value below which `share` of the values lie; 0 when there are none.
pub fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values
        .get(at.clamp(1, values.len().max(1)) - 1)
        .copied()
        .unwrap_or(0.0)
}
