//! What to do next, from what was seen. No clock, no network: the same looks give the same decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Drained, Ends, Observation, OnBroker, Phase, Plan, Queues, Settings, Wants};
use crate::client::lag::GroupKind;

/// Looks in a row that may fail before the way is interrupted.
const FAILURES: u32 = 3;
/// Times that a write is repeated which does not show.
const REPEATS: u32 = 3;

/// Where on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Consumers get every queue that is or will be used.
    RaiseRead,
    /// Name servers show it, clients own the queues.
    Readers,
    /// Producers get the wanted queues.
    SetWrite,
    /// Name servers show it.
    Writers,
    /// The other queues run empty.
    Drain,
    /// Consumers lose the empty queues.
    LowerRead,
    /// Name servers show it.
    Settle,
    /// New queues get messages.
    Traffic,
    /// At the end.
    Done,
}

impl Step {
    /// For progress.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RaiseRead => "raise read queues",
            Self::Readers => "wait for consumers",
            Self::SetWrite => "set write queues",
            Self::Writers => "wait for name servers",
            Self::Drain => "drain",
            Self::LowerRead => "lower read queues",
            Self::Settle => "wait for name servers",
            Self::Traffic => "wait for messages in new queues",
            Self::Done => "done",
        }
    }
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Write these numbers. None of them lowers both.
    Write(Vec<(String, Queues)>),
    /// Look again after a pause; what is waited for.
    Wait(Vec<String>, Duration),
    /// Stop here.
    End(End),
}

/// Why the way ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// At the goal.
    Done,
    /// The deadline passed while waiting for this.
    Deadline(Vec<String>),
    /// These groups do not move.
    Stalled(Vec<String>),
    /// These brokers cannot be seen or changed.
    Unreachable(Vec<String>),
    /// The numbers are not what this plan made them: somebody else changes the topic.
    Changed(Vec<String>),
}

/// The decider. Serialized, it is the resume file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    plan: Plan,
    settings: Settings,
    step: Step,
    /// When the step was entered, epoch ms.
    entered_ms: i64,
    /// When this run began, epoch ms.
    started_ms: i64,
    /// What happened that is worth telling at the end.
    notes: Vec<String>,
    #[serde(skip)]
    memory: Memory,
}

/// What was seen before.
#[derive(Debug, Clone, Default)]
struct Memory {
    /// Numbers of the last look.
    numbers: BTreeMap<String, Queues>,
    failures: u32,
    repeats: u32,
    /// Ends of the drained queues and since when they stand there.
    ends: Option<(Ends, i64)>,
    /// Nothing waited elsewhere in the last look.
    nothing_waited: bool,
    /// Position of each group and since when it stands there.
    positions: BTreeMap<String, (i64, i64)>,
    /// Since when no group has a backlog.
    read_since: Option<i64>,
    /// Ends when the new queues came.
    first_ends: Option<Ends>,
    /// What the last wait was for.
    waiting: Vec<String>,
}

fn ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

impl Machine {
    /// A machine at the begin of a plan.
    pub fn new(plan: Plan, settings: Settings, now_ms: i64) -> Self {
        let step = match settings.phase {
            Phase::All | Phase::Read => Step::RaiseRead,
            Phase::Write => Step::SetWrite,
        };
        Self {
            plan,
            settings,
            step,
            entered_ms: now_ms,
            started_ms: now_ms,
            notes: Vec::new(),
            memory: Memory::default(),
        }
    }

    /// The same way gone on with after an interruption. The drain is watched anew: what was seen before is old.
    #[must_use]
    pub fn resumed(mut self, now_ms: i64) -> Self {
        if self.step == Step::LowerRead {
            self.step = Step::Drain;
        }
        self.started_ms = now_ms;
        self.memory = Memory::default();
        self
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces the settings, for a resumed way.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Where it is.
    pub fn step(&self) -> Step {
        self.step
    }

    /// What happened that is worth telling.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Numbers of the last look.
    pub fn numbers(&self) -> &BTreeMap<String, Queues> {
        &self.memory.numbers
    }

    /// What has to be looked at for the next decision.
    pub fn wants(&self) -> Wants {
        let mut wants = Wants::default();
        match self.step {
            Step::Readers => {
                wants.routes = true;
                wants.owners = self.plan.grows() || self.raises();
            }
            Step::Writers | Step::Settle => wants.routes = true,
            Step::Drain => wants.drained = true,
            Step::Traffic => wants.ends = true,
            Step::RaiseRead | Step::SetWrite | Step::LowerRead | Step::Done => {}
        }
        wants
    }

    fn raises(&self) -> bool {
        self.plan.brokers.values().any(|b| b.widest() > b.before.read)
    }

    /// The state of the topic in words, by the numbers last seen.
    pub fn state(&self) -> String {
        let numbers = &self.memory.numbers;
        let all = |wanted: &dyn Fn(&OnBroker) -> Queues| {
            !numbers.is_empty()
                && self
                    .plan
                    .brokers
                    .iter()
                    .all(|(name, on)| numbers.get(name) == Some(&wanted(on)))
        };
        if all(&|on| on.target) {
            return "at the goal".into();
        }
        if all(&|on| on.before) {
            return "as before, nothing changed".into();
        }
        let mut parts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, queues) in numbers {
            parts.entry(queues.to_string()).or_default().push(name);
        }
        let parts: Vec<String> = parts
            .into_iter()
            .map(|(queues, names)| format!("{queues} on {}", names.join(", ")))
            .collect();
        let covered = numbers.values().all(|q| q.read >= q.write);
        let safe = if covered {
            "every written queue is read, nothing lost"
        } else {
            "some written queues are NOT read"
        };
        format!("{}; {safe}", parts.join("; "))
    }

    /// The decision after a look.
    pub fn next(&mut self, seen: &Observation) -> Next {
        let now = seen.now_ms;
        if let Some(next) = self.unseen(seen) {
            return next;
        }
        let next = loop {
            let before = self.step;
            let next = self.decide(seen);
            // A step that ends at once goes on with the same look, where that look has what the next one needs.
            match next {
                Some(next) => break next,
                None if self.step == before || needs_look(self.wants()) => {
                    break Next::Wait(Vec::new(), Duration::ZERO);
                }
                None => {}
            }
        };
        if let Next::Wait(what, _) = &next {
            if !what.is_empty() {
                self.memory.waiting.clone_from(what);
            }
            if now.saturating_sub(self.started_ms) >= ms(self.settings.deadline) {
                return Next::End(End::Deadline(self.memory.waiting.clone()));
            }
        }
        next
    }

    /// A broker that cannot be seen stops everything, after some tries.
    fn unseen(&mut self, seen: &Observation) -> Option<Next> {
        let mut failed = Vec::new();
        for name in self.plan.brokers.keys() {
            match seen.brokers.get(name) {
                Some(Ok(queues)) => {
                    self.memory.numbers.insert(name.clone(), *queues);
                }
                Some(Err(why)) => failed.push(format!("{name}: {why}")),
                None => failed.push(format!("{name}: not seen")),
            }
        }
        if failed.is_empty() {
            self.memory.failures = 0;
            return None;
        }
        self.memory.failures += 1;
        Some(if self.memory.failures >= FAILURES {
            Next::End(End::Unreachable(failed))
        } else {
            Next::Wait(failed, self.settings.pause)
        })
    }

    fn enter(&mut self, step: Step, now: i64) {
        self.step = step;
        self.entered_ms = now;
        self.memory.repeats = 0;
        self.memory.ends = None;
        self.memory.nothing_waited = false;
        self.memory.positions.clear();
        self.memory.read_since = None;
        self.memory.first_ends = None;
    }

    fn since_entry(&self, now: i64) -> Duration {
        Duration::from_millis(u64::try_from(now.saturating_sub(self.entered_ms)).unwrap_or(0))
    }

    /// Writes what differs; `None` when nothing does.
    fn write(&mut self, wanted: impl Fn(&OnBroker, Queues) -> Queues) -> Option<Next> {
        let mut writes = Vec::new();
        for (name, on) in &self.plan.brokers {
            let now = self.memory.numbers.get(name).copied()?;
            let then = wanted(on, now);
            if then != now {
                writes.push((name.clone(), then));
            }
        }
        if writes.is_empty() {
            return None;
        }
        self.memory.repeats += 1;
        if self.memory.repeats > REPEATS {
            let lines = writes
                .iter()
                .map(|(name, queues)| format!("{name} does not take {queues}"));
            return Some(Next::End(End::Changed(lines.collect())));
        }
        Some(Next::Write(writes))
    }

    /// What is not as this plan needs it at this point.
    fn check(&self, good: impl Fn(&OnBroker, Queues) -> bool) -> Option<Next> {
        let wrong: Vec<String> = self
            .plan
            .brokers
            .iter()
            .filter_map(|(name, on)| {
                let now = self.memory.numbers.get(name)?;
                (!good(on, *now)).then(|| format!("{name} has {now}"))
            })
            .collect();
        (!wrong.is_empty()).then_some(Next::End(End::Changed(wrong)))
    }

    /// What the name servers still show otherwise.
    fn routes_differ(&self, seen: &Observation) -> Vec<String> {
        let mut wrong = Vec::new();
        for (server, routes) in &seen.routes {
            for name in self.plan.brokers.keys() {
                let now = self.memory.numbers.get(name);
                match routes.get(name) {
                    Some(shown) if Some(shown) == now => {}
                    Some(shown) => wrong.push(format!("name server {server} shows {shown} on {name}")),
                    None => wrong.push(format!("name server {server} does not list {name}")),
                }
            }
        }
        if seen.routes.is_empty() {
            wrong.push("no name server answers".into());
        }
        wrong
    }

    /// `None` after a transition.
    fn decide(&mut self, seen: &Observation) -> Option<Next> {
        let now = seen.now_ms;
        let pause = self.settings.pause;
        match self.step {
            Step::RaiseRead => {
                let raised = |on: &OnBroker, q: Queues| Queues {
                    read: q.read.max(on.widest()),
                    write: q.write,
                };
                let next = self.write(raised);
                if next.is_none() {
                    self.enter(Step::Readers, now);
                }
                next
            }
            Step::Readers => {
                let mut waiting = self.routes_differ(seen);
                let waited = self.since_entry(now);
                if waiting.is_empty() && self.wants().owners && waited < self.settings.rebalance_wait {
                    waiting.extend(unowned(seen));
                }
                if !waiting.is_empty() {
                    return Some(Next::Wait(waiting, pause));
                }
                let open = unowned(seen);
                if !open.is_empty() && self.wants().owners {
                    self.notes.push(format!(
                        "after {}s not every client has said that it owns the queues: {}",
                        waited.as_secs(),
                        open.join("; ")
                    ));
                }
                let step = match self.settings.phase {
                    Phase::Read if self.plan.shrinks() => Step::Drain,
                    Phase::Read => Step::Done,
                    Phase::All | Phase::Write => Step::SetWrite,
                };
                self.enter(step, now);
                None
            }
            Step::SetWrite => {
                if let Some(end) = self.check(|on, q| q.read >= on.target.write) {
                    return Some(end);
                }
                let next = self.write(|on, q| Queues {
                    read: q.read,
                    write: on.target.write,
                });
                if next.is_none() {
                    self.enter(Step::Writers, now);
                }
                next
            }
            Step::Writers => {
                let waiting = self.routes_differ(seen);
                if !waiting.is_empty() {
                    return Some(Next::Wait(waiting, pause));
                }
                self.note_silent(seen);
                let step = if self.settings.phase == Phase::Write {
                    Step::Done
                } else if self.plan.shrinks() {
                    Step::Drain
                } else {
                    Step::Traffic
                };
                self.enter(step, now);
                None
            }
            Step::Drain => {
                if let Some(end) = self.check(|on, q| q.write <= on.target.read && q.read >= q.write) {
                    return Some(end);
                }
                let drained = seen.drained.as_ref()?;
                let next = self.drain(drained, now);
                if next.is_none() {
                    self.enter(Step::LowerRead, now);
                }
                next
            }
            Step::LowerRead => {
                if let Some(end) = self.check(|on, q| q.write <= on.target.read) {
                    return Some(end);
                }
                let next = self.write(|on, q| Queues {
                    read: on.target.read,
                    write: q.write,
                });
                if next.is_none() {
                    self.enter(Step::Settle, now);
                }
                next
            }
            Step::Settle => {
                let waiting = self.routes_differ(seen);
                if !waiting.is_empty() {
                    return Some(Next::Wait(waiting, pause));
                }
                self.note_silent(seen);
                let step = if self.plan.grows() {
                    Step::Traffic
                } else {
                    Step::Done
                };
                self.enter(step, now);
                None
            }
            Step::Traffic => self.traffic(seen),
            Step::Done => Some(Next::End(End::Done)),
        }
    }

    fn note_silent(&mut self, seen: &Observation) {
        if !seen.silent_name_servers.is_empty() {
            let note = format!(
                "name servers that did not answer were not checked: {}",
                seen.silent_name_servers.join(", ")
            );
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// What keeps the queues from losing their readers; `None` when nothing does.
    fn drain(&mut self, drained: &Drained, now: i64) -> Option<Next> {
        let mut waiting: Vec<String> = drained.unknown.clone();
        let waited = self.since_entry(now);
        if waited < self.settings.producer_wait {
            let left = self.settings.producer_wait - waited;
            waiting.push(format!(
                "{}s more for producers to see the new number",
                left.as_secs() + 1
            ));
        }
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
        if still_for < ms(self.settings.still) {
            let mut line = format!(
                "the queues have stood still for {} of {}s",
                still_for / 1000,
                self.settings.still.as_secs()
            );
            if moved && self.memory.nothing_waited && waited >= self.settings.producer_wait {
                let names: Vec<&str> = drained.producers.iter().map(String::as_str).collect();
                line.push_str(&format!(
                    "; somebody still writes to them, producers: {}",
                    names.join(", ")
                ));
            }
            waiting.push(line);
        }
        self.memory.nothing_waited = drained.pending.is_empty();
        let (mut behind, mut stalled, mut pops) = (Vec::new(), Vec::new(), false);
        for (name, group) in &drained.groups {
            if self.settings.ignored.contains(name) {
                continue;
            }
            pops |= group.pops;
            if group.lag == 0 && group.inflight == 0 {
                self.memory.positions.remove(name);
                continue;
            }
            behind.push(format!(
                "{name} ({}) has {} unread and {} in flight",
                group.kind.name(),
                group.lag,
                group.inflight
            ));
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
        if !stalled.is_empty() {
            return Some(Next::End(End::Stalled(stalled)));
        }
        if behind.is_empty() {
            let since = *self.memory.read_since.get_or_insert(now);
            let read_for = now.saturating_sub(since);
            if pops && read_for < ms(self.settings.pop_wait) {
                waiting.push(format!(
                    "pop clients may hold messages: read for {} of {}s",
                    read_for / 1000,
                    self.settings.pop_wait.as_secs()
                ));
            }
        } else {
            self.memory.read_since = None;
            waiting.extend(behind);
        }
        if !drained.pending.is_empty() {
            waiting.push(format!("{} will land in them", drained.pending));
        }
        (!waiting.is_empty()).then_some(Next::Wait(waiting, self.settings.pause))
    }

    /// Messages in every new queue are good to see, and no condition.
    fn traffic(&mut self, seen: &Observation) -> Option<Next> {
        let now = seen.now_ms;
        let first = &*self.memory.first_ends.get_or_insert_with(|| seen.ends.clone());
        let grew = |at: &(String, i32)| seen.ends.get(at) > first.get(at);
        let is_new = |at: &(String, i32)| {
            self.plan
                .brokers
                .get(&at.0)
                .is_some_and(|on| on.grown().contains(&at.1))
        };
        let empty: Vec<String> = seen
            .ends
            .iter()
            .filter(|(at, end)| is_new(at) && **end == 0)
            .map(|((broker, queue), _)| format!("{broker}/{queue}"))
            .collect();
        let busy = seen.ends.keys().any(grew);
        if empty.is_empty() {
            self.enter(Step::Done, now);
            return None;
        }
        if self.since_entry(now) < self.settings.verify_wait {
            let line = format!("messages in new queues: none yet in {}", empty.join(", "));
            return Some(Next::Wait(vec![line], self.settings.pause));
        }
        self.notes.push(if busy {
            format!("producers write, but not yet to {}", empty.join(", "))
        } else {
            "no producer wrote to the topic meanwhile".into()
        });
        self.enter(Step::Done, now);
        None
    }
}

fn needs_look(wants: Wants) -> bool {
    wants != Wants::default()
}

/// Groups with queues that no client reads, or that do not say.
fn unowned(seen: &Observation) -> Vec<String> {
    seen.unowned
        .iter()
        .filter_map(|(group, open)| match open {
            Some(0) => None,
            Some(n) => Some(format!("{n} queues have no client of {group} yet")),
            None => Some(format!("clients of {group} do not say which queues they read")),
        })
        .collect()
}

/// Groups that cannot be waited for: they need `ignored`.
pub fn unwaitable(groups: &BTreeMap<String, super::DrainedGroup>, ignored: &BTreeSet<String>) -> Vec<String> {
    groups
        .iter()
        .filter(|(name, group)| group.kind != GroupKind::Clustering && !ignored.contains(*name))
        .map(|(name, group)| format!("{name} ({})", group.kind.name()))
        .collect()
}
