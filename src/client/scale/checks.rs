//! The way as a list: its steps and, beneath each, the conditions that were seen last.

use std::collections::BTreeMap;

use super::{Machine, OnBroker, Phase, Step};

/// How a line of the list stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckState {
    /// Done, or it holds.
    Met,
    /// It does not hold yet, or is being done.
    Waiting,
    /// It cannot be seen, and is waited for.
    Unknown,
    /// It does not hold and is not waited for.
    Ignored,
    /// Its turn has not come.
    Later,
}

impl CheckState {
    /// True where the way waits for it now.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Unknown)
    }
}

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The step, or the step of the condition.
    pub step: Step,
    /// True for the step itself, false for a condition of it.
    pub is_step: bool,
    /// How it stands.
    pub state: CheckState,
    /// In words.
    pub text: String,
}

impl Machine {
    /// The steps of this plan, in order.
    pub fn way(&self) -> Vec<Step> {
        let phase = self.settings.phase;
        let writes = self
            .plan
            .brokers
            .values()
            .any(|on| on.before.write != on.target.write);
        let (reads, shrinks) = (phase != Phase::Write, self.plan.shrinks());
        let steps = [
            (Step::RaiseRead, reads && self.raises()),
            (Step::Readers, reads && (self.raises() || self.plan.grows())),
            (Step::Positions, phase != Phase::Read && self.plan.grows()),
            (Step::SetWrite, phase != Phase::Read && writes),
            (Step::Writers, phase != Phase::Read && writes),
            (Step::Drain, reads && shrinks),
            (Step::LowerRead, reads && shrinks),
            (Step::Settle, reads && shrinks),
            (Step::Traffic, phase == Phase::All && self.plan.grows()),
        ];
        let on_way = steps.into_iter().filter(|(_, on_way)| *on_way);
        on_way.map(|(step, _)| step).collect()
    }

    /// The list: every step of the way, with its conditions where some were seen.
    pub fn checks(&self) -> Vec<Check> {
        let mut list = Vec::new();
        for step in self.way() {
            list.push(Check {
                step,
                is_step: true,
                state: match step.cmp(&self.step) {
                    std::cmp::Ordering::Less => CheckState::Met,
                    std::cmp::Ordering::Equal => CheckState::Waiting,
                    std::cmp::Ordering::Greater => CheckState::Later,
                },
                text: self.step_text(step),
            });
            let conditions = self.memory.conditions.get(&step);
            list.extend(conditions.into_iter().flatten().cloned());
        }
        list
    }

    pub(super) fn step_text(&self, step: Step) -> String {
        match step {
            Step::RaiseRead => self.change("read", |on| (on.before.read, on.widest().max(on.before.read))),
            Step::Readers => "consumers see and own the queues".into(),
            Step::Positions => "every group has a place in the new queues".into(),
            Step::SetWrite => self.change("write", |on| (on.before.write, on.target.write)),
            Step::Drain => {
                let mut queues: Vec<String> = self
                    .plan
                    .brokers
                    .values()
                    .filter(|on| !on.drained().is_empty())
                    .map(|on| format!("{}-{}", on.drained().start, on.drained().end - 1))
                    .collect();
                queues.dedup();
                format!("drain queues {}", queues.join(", "))
            }
            Step::LowerRead => self.change("read", |on| (on.widest(), on.target.read)),
            Step::Writers | Step::Settle => "name servers show it".into(),
            Step::Traffic => "new queues get messages".into(),
            Step::Done => "done".into(),
        }
    }

    /// `read 8 → 16 on broker-a, broker-b`, where a number changes.
    fn change(&self, side: &str, numbers: impl Fn(&OnBroker) -> (i32, i32)) -> String {
        let mut parts: BTreeMap<(i32, i32), Vec<&str>> = BTreeMap::new();
        for (name, on) in &self.plan.brokers {
            let (before, after) = numbers(on);
            if before != after {
                parts.entry((before, after)).or_default().push(name);
            }
        }
        let parts: Vec<String> = parts
            .into_iter()
            .map(|((before, after), names)| format!("{side} {before} → {after} on {}", names.join(", ")))
            .collect();
        parts.join("; ")
    }
}
