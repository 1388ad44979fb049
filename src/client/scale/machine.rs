//! What to do next, from what was seen. No clock, no network: the same looks give the same decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::begins::Begin;
use super::{
    Check, CheckState, Ends, Observation, OnBroker, Overrides, Phase, Plan, Queues, Settings, Wants,
};

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
    /// Groups get a position in the queues that producers will get.
    Positions,
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
            Self::Positions => "give groups a place in new queues",
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
    /// Write these first positions of groups.
    Begin(Vec<Begin>),
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
    pub(super) plan: Plan,
    pub(super) settings: Settings,
    pub(super) step: Step,
    /// When the step was entered, epoch ms.
    pub(super) entered_ms: i64,
    /// When this run began, epoch ms.
    started_ms: i64,
    /// What happened that is worth telling at the end.
    notes: Vec<String>,
    /// Ends before the new queues came, or as they were seen first: one of a longer life of the topic has messages.
    #[serde(default, with = "rows")]
    first_ends: Ends,
    /// When the topic was looked at last, epoch ms.
    #[serde(default)]
    pub(super) seen_ms: i64,
    /// What the step waited for then.
    #[serde(default)]
    pub(super) waits: Vec<String>,
    #[serde(skip)]
    pub(super) memory: Memory,
}

/// Ends as rows, since a key of JSON is a text.
mod rows {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::client::scale::Ends;

    pub(super) fn serialize<S: Serializer>(ends: &Ends, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(ends.iter().map(|((broker, queue), end)| (broker, queue, end)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Ends, D::Error> {
        let rows = Vec::<(String, i32, i64)>::deserialize(from)?;
        Ok(rows
            .into_iter()
            .map(|(broker, queue, end)| ((broker, queue), end))
            .collect())
    }
}

/// What was seen before.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// Numbers of the last look that saw them.
    pub numbers: BTreeMap<String, Queues>,
    /// Brokers that the last look did not see, with the reason.
    pub unseen: BTreeMap<String, String>,
    failures: u32,
    repeats: u32,
    /// Ends of the drained queues and since when they stand there.
    pub ends: Option<(Ends, i64)>,
    /// Nothing waited elsewhere in the last look.
    pub nothing_waited: bool,
    /// Position of each group and since when it stands there.
    pub positions: BTreeMap<String, (i64, i64)>,
    /// Since when no group has a backlog.
    pub read_since: Option<i64>,
    /// The last writes that failed in this step, by broker.
    failed_writes: BTreeMap<String, String>,
    /// What the last wait was for.
    waiting: Vec<String>,
    /// The conditions of each step as they were seen last.
    pub conditions: BTreeMap<Step, Vec<Check>>,
}

pub(super) fn ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

impl Machine {
    /// A machine at the begin of a plan.
    pub fn new(plan: Plan, settings: Settings, now_ms: i64) -> Self {
        let step = match settings.phase {
            Phase::All | Phase::Read => Step::RaiseRead,
            Phase::Write => Step::Positions,
        };
        Self {
            plan,
            settings,
            step,
            entered_ms: now_ms,
            started_ms: now_ms,
            notes: Vec::new(),
            first_ends: Ends::new(),
            seen_ms: 0,
            waits: Vec::new(),
            memory: Memory::default(),
        }
    }

    /// The same way gone on with after an interruption. The drain is watched anew: what was seen before is old.
    #[must_use]
    pub fn resumed(mut self, now_ms: i64) -> Self {
        if self.step == Step::LowerRead {
            self.step = Step::Drain;
            self.entered_ms = now_ms;
            self.waits.clear();
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

    /// Changes what was named of the settings, for a way that is gone on with.
    pub fn set(&mut self, named: &Overrides) {
        self.settings = std::mem::take(&mut self.settings).with(named);
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
            Step::Positions => wants.begins = self.plan.grows(),
            Step::Writers | Step::Settle => wants.routes = true,
            Step::Drain => wants.drained = true,
            Step::SetWrite => wants.ends = self.plan.grows(),
            Step::Traffic => wants.ends = true,
            Step::RaiseRead | Step::LowerRead | Step::Done => {}
        }
        wants
    }

    pub(super) fn raises(&self) -> bool {
        self.plan.brokers.values().any(|b| b.widest() > b.before.read)
    }

    /// Takes over the numbers of a look that no decision follows, so that [`Machine::state`] tells them.
    pub fn note_numbers(&mut self, seen: &BTreeMap<String, Result<Queues, String>>) {
        self.memory.unseen.clear();
        for name in self.plan.brokers.keys() {
            match seen.get(name) {
                Some(Ok(queues)) => {
                    self.memory.numbers.insert(name.clone(), *queues);
                }
                Some(Err(why)) => {
                    self.memory.unseen.insert(name.clone(), why.clone());
                }
                None => {
                    self.memory.unseen.insert(name.clone(), "not seen".into());
                }
            }
        }
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
        let unseen: Vec<String> = self
            .plan
            .brokers
            .keys()
            .filter(|name| !numbers.contains_key(*name) || self.memory.unseen.contains_key(*name))
            .cloned()
            .collect();
        let blind = if unseen.is_empty() {
            String::new()
        } else {
            format!("; what {} has now is not known", unseen.join(", "))
        };
        if numbers.is_empty() {
            let before = by_numbers(self.plan.brokers.iter().map(|(name, on)| (name, on.before)));
            return format!("not looked at; the plan began at {before}{blind}");
        }
        if all(&|on| on.target) {
            return format!("at the goal{blind}");
        }
        if all(&|on| on.before) {
            return format!("as before, nothing changed{blind}");
        }
        let covered = numbers.values().all(|q| q.read >= q.write);
        let safe = if covered {
            "every written queue is read, nothing lost"
        } else {
            "some written queues are NOT read"
        };
        let parts = by_numbers(numbers.iter().map(|(name, queues)| (name, *queues)));
        format!("{parts}; {safe}{blind}")
    }

    /// The decision after a look.
    pub fn next(&mut self, seen: &Observation) -> Next {
        self.seen_ms = seen.now_ms;
        let next = self.decision(seen);
        match &next {
            Next::Wait(what, _) if !what.is_empty() => self.waits.clone_from(what),
            Next::Write(_) | Next::Begin(_) => self.waits.clear(),
            Next::Wait(..) | Next::End(_) => {}
        }
        next
    }

    fn decision(&mut self, seen: &Observation) -> Next {
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
        self.note_numbers(&seen.brokers);
        if self.memory.unseen.is_empty() {
            self.memory.failures = 0;
            return None;
        }
        let failed: Vec<String> = self
            .memory
            .unseen
            .iter()
            .map(|(name, why)| format!("{name}: {why}"))
            .collect();
        self.memory.failures += 1;
        Some(if self.memory.failures >= FAILURES {
            Next::End(End::Unreachable(failed))
        } else {
            Next::Wait(failed, self.settings.pause)
        })
    }

    /// Keeps the conditions of the present step and waits for those that do not hold; `None` when all do.
    pub(super) fn wait_for(&mut self, conditions: Vec<Check>) -> Option<Next> {
        let open: Vec<String> = conditions
            .iter()
            .filter(|check| check.state.is_open())
            .map(|check| check.text.clone())
            .collect();
        self.memory.conditions.insert(self.step, conditions);
        (!open.is_empty()).then_some(Next::Wait(open, self.settings.pause))
    }

    fn enter(&mut self, step: Step, now: i64) {
        self.step = step;
        self.entered_ms = now;
        self.waits.clear();
        self.memory.repeats = 0;
        self.memory.ends = None;
        self.memory.nothing_waited = false;
        self.memory.positions.clear();
        self.memory.read_since = None;
        self.memory.failed_writes.clear();
    }

    /// Remembers which of the last writes failed, by broker: when they go on failing, that is why the way ends.
    pub fn note_failed(&mut self, failed: impl IntoIterator<Item = (String, String)>) {
        self.memory.failed_writes = failed.into_iter().collect();
    }

    /// The end after writes that do not show: of those brokers that refuse them, or of somebody else's change.
    fn not_taken(&self, brokers: &BTreeSet<&str>, lines: Vec<String>) -> End {
        let failed = self.memory.failed_writes.iter();
        let failed: Vec<String> = failed
            .filter(|(name, _)| brokers.contains(name.as_str()))
            .map(|(name, why)| format!("{name}: {why}"))
            .collect();
        if failed.is_empty() {
            End::Changed(lines)
        } else {
            End::Unreachable(failed)
        }
    }

    pub(super) fn since_entry(&self, now: i64) -> Duration {
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
            let brokers = writes.iter().map(|(name, _)| name.as_str()).collect();
            return Some(Next::End(self.not_taken(&brokers, lines.collect())));
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

    /// What the name servers show.
    fn routes(&self, seen: &Observation) -> Vec<Check> {
        let mut checks = Vec::new();
        for (server, routes) in &seen.routes {
            let known = checks.len();
            for name in self.plan.brokers.keys() {
                let now = self.memory.numbers.get(name);
                match routes.get(name) {
                    Some(shown) if Some(shown) == now => {}
                    Some(shown) => checks.push(self.check_of(
                        CheckState::Waiting,
                        format!("name server {server} shows {shown} on {name}"),
                    )),
                    None => checks.push(self.check_of(
                        CheckState::Waiting,
                        format!("name server {server} does not list {name}"),
                    )),
                }
            }
            if checks.len() == known {
                let text = format!("name server {server} shows the numbers");
                checks.push(self.check_of(CheckState::Met, text));
            }
        }
        if seen.routes.is_empty() {
            checks.push(self.check_of(CheckState::Unknown, "no name server answers".into()));
        }
        for server in &seen.silent_name_servers {
            let text = format!("name server {server} does not answer and is not checked");
            checks.push(self.check_of(CheckState::Ignored, text));
        }
        checks
    }

    /// A condition of the present step.
    pub(super) fn check_of(&self, state: CheckState, text: String) -> Check {
        Check {
            step: self.step,
            is_step: false,
            state,
            text,
        }
    }

    /// `None` after a transition.
    fn decide(&mut self, seen: &Observation) -> Option<Next> {
        let now = seen.now_ms;
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
                let waited = self.since_entry(now);
                let mut conditions = self.routes(seen);
                let open = if self.wants().owners {
                    unowned(seen)
                } else {
                    Vec::new()
                };
                let late = waited >= self.settings.rebalance_wait;
                let shown = conditions.iter().all(|check| !check.state.is_open());
                let state = if late {
                    CheckState::Ignored
                } else {
                    CheckState::Waiting
                };
                conditions.extend(self.unseen_of(seen));
                conditions.extend(open.iter().map(|text| self.check_of(state, text.clone())));
                if open.is_empty() && self.wants().owners {
                    let text = "the clients of every group own the queues".into();
                    conditions.push(self.check_of(CheckState::Met, text));
                }
                if let Some(next) = self.wait_for(conditions) {
                    return Some(next);
                }
                if !open.is_empty() && shown {
                    self.notes.push(format!(
                        "after {}s not every client has said that it owns the queues: {}",
                        waited.as_secs(),
                        open.join("; ")
                    ));
                }
                let step = match self.settings.phase {
                    Phase::Read if self.plan.shrinks() => Step::Drain,
                    Phase::Read => Step::Done,
                    Phase::All | Phase::Write => Step::Positions,
                };
                self.enter(step, now);
                None
            }
            Step::Positions => self.positions(seen),
            Step::SetWrite => {
                if let Some(end) = self.check(|on, q| q.read >= on.target.write) {
                    return Some(end);
                }
                self.note_first_ends(seen);
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
                let conditions = self.routes(seen);
                if let Some(next) = self.wait_for(conditions) {
                    return Some(next);
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
                let conditions = self.routes(seen);
                if let Some(next) = self.wait_for(conditions) {
                    return Some(next);
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

    /// Groups get their places before the first message can come.
    fn positions(&mut self, seen: &Observation) -> Option<Next> {
        if !self.plan.grows() {
            self.enter(Step::SetWrite, seen.now_ms);
            return None;
        }
        let begins = seen.begins.as_ref()?;
        let mut conditions: Vec<Check> = Vec::new();
        let mut tell = |state: CheckState, text: String| conditions.push(self.check_of(state, text));
        for why in &begins.unknown {
            tell(CheckState::Unknown, why.clone());
        }
        for text in &begins.left_alone {
            tell(CheckState::Ignored, text.clone());
        }
        for group in &begins.settled {
            tell(CheckState::Met, format!("{group} has a place in every new queue"));
        }
        for begin in &begins.missing {
            tell(CheckState::Waiting, begin.to_string());
        }
        let next = self.wait_for(conditions);
        if begins.missing.is_empty() || !begins.unknown.is_empty() {
            if next.is_none() {
                self.enter(Step::SetWrite, seen.now_ms);
            }
            return next;
        }
        self.memory.repeats += 1;
        if self.memory.repeats > REPEATS {
            let lines = begins.missing.iter().map(|begin| {
                format!(
                    "{} does not keep a position of {} in queue {}",
                    begin.broker, begin.group, begin.queue
                )
            });
            let brokers = begins.missing.iter().map(|begin| begin.broker.as_str()).collect();
            return Some(Next::End(self.not_taken(&brokers, lines.collect())));
        }
        for begin in begins.missing.iter().filter(|begin| begin.passed_over > 0) {
            let note = begin.to_string();
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        Some(Next::Begin(begins.missing.clone()))
    }

    fn unseen_of<'a>(&'a self, seen: &'a Observation) -> impl Iterator<Item = Check> + 'a {
        seen.unknown
            .iter()
            .map(|why| self.check_of(CheckState::Unknown, why.clone()))
    }

    fn note_first_ends(&mut self, seen: &Observation) {
        for (at, end) in &seen.ends {
            self.first_ends.entry(at.clone()).or_insert(*end);
        }
    }

    /// Messages in every new queue are good to see, and no condition.
    fn traffic(&mut self, seen: &Observation) -> Option<Next> {
        let now = seen.now_ms;
        self.note_first_ends(seen);
        let first = &self.first_ends;
        let grew = |at: &(String, i32)| seen.ends.get(at) > first.get(at);
        let new = self
            .plan
            .brokers
            .iter()
            .flat_map(|(name, on)| on.grown().map(move |queue| (name.clone(), queue)));
        // A queue whose end was not told may have messages or none.
        let (told, untold): (Vec<_>, Vec<_>) = new.partition(|at| seen.ends.contains_key(at));
        let names = |queues: Vec<&(String, i32)>| {
            let names: Vec<String> = queues
                .iter()
                .map(|(name, queue)| format!("{name}/{queue}"))
                .collect();
            names.join(", ")
        };
        let (empty, untold) = (
            names(told.iter().filter(|at| !grew(at)).collect()),
            names(untold.iter().collect()),
        );
        let busy = seen.ends.keys().any(grew);
        let waits = self.since_entry(now) < self.settings.verify_wait;
        let state = |open: CheckState| if waits { open } else { CheckState::Ignored };
        let mut conditions = Vec::new();
        if !empty.is_empty() {
            let text = format!("messages in new queues: none yet in {empty}");
            conditions.push(self.check_of(state(CheckState::Waiting), text));
        }
        if !untold.is_empty() {
            let text = format!("messages in new queues: not known of {untold}");
            conditions.push(self.check_of(state(CheckState::Unknown), text));
        }
        if conditions.is_empty() {
            conditions.push(self.check_of(CheckState::Met, "messages in every new queue".into()));
        }
        if waits {
            conditions.extend(self.unseen_of(seen));
        }
        if let Some(next) = self.wait_for(conditions) {
            return Some(next);
        }
        if !untold.is_empty() {
            self.notes
                .push(format!("whether messages came to {untold} is not known"));
        }
        if !empty.is_empty() {
            self.notes.push(if busy {
                format!("producers write, but not yet to {empty}")
            } else if untold.is_empty() {
                "no producer wrote to the topic meanwhile".into()
            } else {
                format!("no message came to {empty} meanwhile")
            });
        }
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

/// `read 16 write 8 on a, b; read 8 write 8 on c`.
fn by_numbers<'a>(numbers: impl IntoIterator<Item = (&'a String, Queues)>) -> String {
    let mut parts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, queues) in numbers {
        parts.entry(queues.to_string()).or_default().push(name);
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(queues, names)| format!("{queues} on {}", names.join(", ")))
        .collect();
    parts.join("; ")
}
