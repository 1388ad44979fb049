//! What keeps the queues that go from losing their readers.

use super::machine::{End, Machine, Next, ms};
use super::{Check, CheckState, Drained};

impl Machine {
    /// `None` when nothing keeps them.
    pub(super) fn drain(&mut self, drained: &Drained, now: i64) -> Option<Next> {
        let mut conditions: Vec<Check> = drained
            .unknown
            .iter()
            .map(|why| self.check_of(CheckState::Unknown, why.clone()))
            .collect();
        conditions.push(self.producers_know(now));
        conditions.push(self.stillness(drained, now));
        let (groups, stalled, pops) = self.groups(drained, now);
        if !stalled.is_empty() {
            conditions.extend(groups);
            self.memory.conditions.insert(self.step, conditions);
            return Some(Next::End(End::Stalled(stalled)));
        }
        // Without an answer of every group nothing is known to be read.
        if groups.iter().any(|check| check.state.is_open()) || !drained.unknown.is_empty() {
            self.memory.read_since = None;
        } else {
            let since = *self.memory.read_since.get_or_insert(now);
            conditions.extend(pops.then(|| self.pop_clients(now.saturating_sub(since))));
        }
        conditions.extend(groups);
        conditions.push(if drained.pending.is_empty() {
            let text = "no delayed, timed or half message will land in them";
            self.check_of(CheckState::Met, text.into())
        } else {
            self.check_of(
                CheckState::Waiting,
                format!("{} will land in them", drained.pending),
            )
        });
        self.wait_for(conditions)
    }

    fn producers_know(&self, now: i64) -> Check {
        let (waited, wanted) = (self.since_entry(now), self.settings.producer_wait);
        if waited >= wanted {
            let text = format!("producers have had {}s to see the new number", wanted.as_secs());
            return self.check_of(CheckState::Met, text);
        }
        let left = (wanted - waited).as_secs() + 1;
        self.check_of(
            CheckState::Waiting,
            format!("{left}s more for producers to see the new number"),
        )
    }

    fn stillness(&mut self, drained: &Drained, now: i64) -> Check {
        let waited = self.since_entry(now);
        let since = match &self.memory.ends {
            // A message that waits elsewhere is on its way: nothing stands still before it came.
            Some((ends, since)) if *ends == drained.ends && drained.pending.is_empty() => *since,
            _ => now,
        };
        let moved = self
            .memory
            .ends
            .as_ref()
            .is_some_and(|(ends, _)| *ends != drained.ends);
        self.memory.ends = Some((drained.ends.clone(), since));
        let still_for = now.saturating_sub(since);
        let mut text = format!(
            "the queues have stood still for {} of {}s",
            still_for / 1000,
            self.settings.still.as_secs()
        );
        let met = still_for >= ms(self.settings.still);
        if !met && moved && self.memory.nothing_waited && waited >= self.settings.producer_wait {
            let names: Vec<&str> = drained.producers.iter().map(String::as_str).collect();
            text.push_str(&format!(
                "; somebody still writes to them, producers: {}",
                names.join(", ")
            ));
        }
        self.memory.nothing_waited = drained.pending.is_empty();
        self.check_of(if met { CheckState::Met } else { CheckState::Waiting }, text)
    }

    /// A line for each group, those that do not move, and whether some pop.
    fn groups(&mut self, drained: &Drained, now: i64) -> (Vec<Check>, Vec<String>, bool) {
        let (mut checks, mut stalled, mut pops) = (Vec::new(), Vec::new(), false);
        for (name, group) in &drained.groups {
            let kind = group.kind.name();
            let left = format!("{} unread and {} in flight", group.lag, group.inflight);
            if self.settings.ignored.contains(name) {
                let text = format!("{name} ({kind}) is ignored and has {left}");
                checks.push(self.check_of(CheckState::Ignored, text));
                continue;
            }
            pops |= group.pops;
            if group.lag == 0 && group.inflight == 0 {
                self.memory.positions.remove(name);
                checks.push(self.check_of(CheckState::Met, format!("{name} ({kind}) has read them")));
                continue;
            }
            checks.push(self.check_of(CheckState::Waiting, format!("{name} ({kind}) has {left}")));
            let at = self
                .memory
                .positions
                .entry(name.clone())
                .or_insert((group.position, now));
            if at.0 != group.position {
                *at = (group.position, now);
            }
            if now.saturating_sub(at.1) >= ms(self.settings.stall) {
                let clients: Vec<&str> = group.clients.iter().map(String::as_str).collect();
                stalled.push(format!(
                    "{name} has {} unread and has not moved for {}s; clients: {}",
                    group.lag,
                    now.saturating_sub(at.1) / 1000,
                    if clients.is_empty() {
                        "none".into()
                    } else {
                        clients.join(", ")
                    }
                ));
            }
        }
        self.memory
            .positions
            .retain(|name, _| drained.groups.contains_key(name));
        (checks, stalled, pops)
    }

    fn pop_clients(&self, read_for_ms: i64) -> Check {
        let met = read_for_ms >= ms(self.settings.pop_wait);
        let text = format!(
            "pop clients may hold messages: read for {} of {}s",
            read_for_ms / 1000,
            self.settings.pop_wait.as_secs()
        );
        self.check_of(if met { CheckState::Met } else { CheckState::Waiting }, text)
    }
}
