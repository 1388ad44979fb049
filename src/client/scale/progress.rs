//! Where a way is, for whoever shows it: the step, how many there are, what it waits for and since when.

use super::{CheckState, Machine};

/// Where a way is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Number of the present step, from 1.
    pub at: usize,
    /// How many steps the way has.
    pub of: usize,
    /// All steps are done.
    pub done: bool,
    /// The present step in words.
    pub step: String,
    /// Since when it is the present one, epoch ms.
    pub since_ms: i64,
    /// When the topic was looked at last, epoch ms; 0 before the first look.
    pub seen_ms: i64,
    /// What the step waits for, as it was seen then.
    pub waits: Vec<String>,
    /// Conditions of the step that hold; empty where only the plan file tells.
    pub met: Vec<String>,
    /// The steps that come after it.
    pub left: Vec<String>,
}

impl Progress {
    /// `step 2 of 5`.
    pub fn place(&self) -> String {
        format!("step {} of {}", self.at, self.of)
    }
}

impl Machine {
    /// Where the way is. A wait before the first step, such as for name servers to show the numbers, belongs to it.
    pub fn progress(&self) -> Progress {
        let way = self.way();
        let present = way.iter().position(|step| *step >= self.step);
        let (at, text) = match present {
            Some(at) => (at + 1, self.step_text(way[at])),
            None => (way.len(), "done".to_owned()),
        };
        let conditions = self.memory.conditions.get(&self.step).into_iter().flatten();
        Progress {
            at,
            of: way.len(),
            done: present.is_none(),
            step: text,
            since_ms: self.entered_ms,
            seen_ms: self.seen_ms,
            waits: self.waits.clone(),
            met: conditions
                .filter(|check| check.state == CheckState::Met)
                .map(|check| check.text.clone())
                .collect(),
            left: way.iter().skip(at).map(|step| self.step_text(*step)).collect(),
        }
    }
}
