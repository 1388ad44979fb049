//! The machine against a small model of a cluster: clients with old routes, delayed and half messages, interruptions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::client::lag::GroupKind;

/// Step of the model, ms.
const TICK: i64 = 2_000;
/// How old a client's route gets.
const ROUTE_AGE: i64 = 30_000;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A message on its way: when it lands, where, and what kind it is.
#[derive(Clone)]
struct Late {
    at: i64,
    broker: String,
    queue: i32,
    half: bool,
}

struct Model {
    dice: Dice,
    now: i64,
    numbers: BTreeMap<String, Queues>,
    ends: BTreeMap<(String, i32), i64>,
    read: BTreeMap<(String, i32), i64>,
    late: Vec<Late>,
    /// What clients know, and since when.
    producer: (BTreeMap<String, Queues>, i64),
    consumer: (BTreeMap<String, Queues>, i64),
}

impl Model {
    fn new(seed: u64, numbers: BTreeMap<String, Queues>) -> Self {
        Self {
            dice: Dice(seed),
            now: 1_000_000,
            producer: (numbers.clone(), 1_000_000),
            consumer: (numbers.clone(), 1_000_000),
            numbers,
            ends: BTreeMap::new(),
            read: BTreeMap::new(),
            late: Vec::new(),
        }
    }

    fn tick(&mut self, produce: bool) {
        self.now += TICK;
        if self.now - self.producer.1 >= ROUTE_AGE {
            self.producer = (self.numbers.clone(), self.now);
        }
        if self.now - self.consumer.1 >= ROUTE_AGE {
            self.consumer = (self.numbers.clone(), self.now);
        }
        let (due, late) = self.late.drain(..).partition(|m: &Late| m.at <= self.now);
        self.late = late;
        for message in due {
            *self.ends.entry((message.broker, message.queue)).or_default() += 1;
        }
        if produce {
            for _ in 0..3 {
                self.send();
            }
        }
        let queues: Vec<(String, i32)> = self.ends.keys().cloned().collect();
        for at in queues {
            let known = self.consumer.0.get(&at.0).map_or(0, |q| q.read);
            // A broker refuses pulls behind its own number.
            let open = self.numbers.get(&at.0).map_or(0, |q| q.read);
            if at.1 < known.min(open) {
                let end = self.ends[&at];
                self.read.insert(at, end);
            }
        }
    }

    fn send(&mut self) {
        let brokers: Vec<String> = self.producer.0.keys().cloned().collect();
        let broker = brokers[self.dice.roll(brokers.len() as u64) as usize].clone();
        let write = self.producer.0[&broker].write.max(1);
        // The broker lets an old client write behind its number.
        let queue = self.dice.roll(write as u64) as i32;
        let (at, half) = match self.dice.roll(6) {
            0 => (self.now + 1_000 * self.dice.roll(200) as i64, false),
            1 => (self.now + 1_000 * self.dice.roll(90) as i64, true),
            _ => (self.now, false),
        };
        self.late.push(Late {
            at,
            broker,
            queue,
            half,
        });
    }

    fn look(&self, plan: &Plan) -> Observation {
        let mut seen = Observation {
            now_ms: self.now,
            ..Observation::default()
        };
        let mut drained = Drained::default();
        let mut lag = 0;
        let mut position = 0;
        for (name, on) in &plan.brokers {
            let now = self.numbers[name];
            seen.brokers.insert(name.clone(), Ok(now));
            let queues = on.target.read..now.read.max(now.write);
            for queue in queues.clone() {
                let at = (name.clone(), queue);
                let (end, read) = (
                    self.ends.get(&at).copied().unwrap_or(0),
                    self.read.get(&at).copied().unwrap_or(0),
                );
                drained.ends.insert(at, end);
                lag += end - read;
                position += read;
            }
            for message in self
                .late
                .iter()
                .filter(|m| m.broker == *name && queues.contains(&m.queue))
            {
                if message.half {
                    drained.pending.half += 1;
                } else {
                    drained.pending.delayed += 1;
                }
            }
        }
        let group = DrainedGroup {
            kind: GroupKind::Clustering,
            pops: false,
            lag,
            inflight: 0,
            position,
            clients: BTreeSet::new(),
        };
        drained.groups.insert("G".into(), group);
        seen.drained = Some(drained);
        seen.routes = vec![("ns".into(), self.numbers.clone())];
        // Owners are known when the consumer has the route.
        let open = usize::from(self.consumer.0 != self.numbers);
        seen.unowned.insert("G".into(), Some(open));
        for (name, now) in &self.numbers {
            for queue in 0..now.read.max(now.write) {
                let at = (name.clone(), queue);
                let end = self.ends.get(&at).copied().unwrap_or(0);
                seen.ends.insert(at, end);
            }
        }
        seen.begins = Some(begins::Begins::default());
        seen
    }

    /// Messages in queues that nobody reads, now or later.
    fn stranded(&mut self) -> i64 {
        for _ in 0..200 {
            self.tick(false);
        }
        self.ends
            .iter()
            .map(|(at, end)| end - self.read.get(at).copied().unwrap_or(0))
            .sum()
    }
}

fn settings() -> Settings {
    Settings {
        deadline: Duration::from_secs(100_000),
        ..Settings::default()
    }
}

/// Runs a plan to its end in the model; interrupted with odds of one in `break_odds` a look.
fn travel(model: &mut Model, plan: &Plan, break_odds: u64) -> Result<u32, TestCaseError> {
    let mut machine = Machine::new(plan.clone(), settings(), model.now);
    // Who is interrupted all the time never sees the queues stand still.
    let mut breaks = if break_odds > 0 { 20 } else { 0 };
    for looks in 0..5_000 {
        let seen = model.look(plan);
        match machine.next(&seen) {
            Next::End(End::Done) => return Ok(looks),
            Next::End(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
            Next::Wait(..) | Next::Begin(_) => {}
            Next::Write(writes) => {
                for (name, then) in writes {
                    let now = model.numbers[&name];
                    prop_assert!(
                        !(then.read < now.read && then.write < now.write),
                        "{now} -> {then} lowers both"
                    );
                    let covered = now.read >= now.write;
                    prop_assert!(
                        !covered || then.read >= then.write,
                        "{now} -> {then}: written and not read"
                    );
                    model.numbers.insert(name, then);
                    // The process may die between two brokers.
                    if breaks > 0 && model.dice.roll(break_odds) == 0 {
                        break;
                    }
                }
            }
        }
        if breaks > 0 && model.dice.roll(break_odds) == 0 {
            breaks -= 1;
            let text = serde_json::to_string(&machine).unwrap();
            machine = serde_json::from_str::<Machine>(&text).unwrap().resumed(model.now);
        }
        model.tick(true);
    }
    Err(TestCaseError::fail(format!("no end; step {:?}", machine.step())))
}

fn numbers() -> impl Strategy<Value = Queues> {
    (1..20i32, 1..20i32).prop_map(|(read, write)| Queues { read, write })
}

fn plans() -> impl Strategy<Value = Plan> {
    let target = (1..20i32, 0..8i32).prop_map(|(write, more)| Queues {
        read: write + more,
        write,
    });
    proptest::collection::vec((numbers(), target), 1..4).prop_map(|brokers| Plan {
        topic: "T".into(),
        brokers: brokers
            .into_iter()
            .enumerate()
            .map(|(i, (before, target))| (format!("b{i}"), OnBroker { before, target }))
            .collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_is_stranded_whatever_the_way_and_wherever_it_is_interrupted(
        plan in plans(), seed in any::<u64>(), break_odds in prop_oneof![Just(0u64), 2..40u64],
    ) {
        let before = plan.brokers.iter().map(|(n, on)| (n.clone(), on.before)).collect();
        let mut model = Model::new(seed, before);
        for _ in 0..30 {
            model.tick(true);
        }
        travel(&mut model, &plan, break_odds)?;
        for (name, on) in &plan.brokers {
            prop_assert_eq!(model.numbers[name], on.target);
        }
        prop_assert_eq!(model.stranded(), 0);
    }

    #[test]
    fn an_interrupted_way_can_be_gone_back(plan in plans(), seed in any::<u64>(), looks in 0..200u32) {
        // Back to numbers in which written queues are not read is not a state to go to.
        prop_assume!(plan.brokers.values().all(|on| on.before.read >= on.before.write));
        let before = plan.brokers.iter().map(|(n, on)| (n.clone(), on.before)).collect();
        let mut model = Model::new(seed, before);
        let mut machine = Machine::new(plan.clone(), settings(), model.now);
        for _ in 0..looks {
            let seen = model.look(&plan);
            if let Next::Write(writes) = machine.next(&seen) {
                model.numbers.extend(writes);
            }
            model.tick(true);
        }
        let back = machine.plan().reversed(&model.numbers);
        travel(&mut model, &back, 0)?;
        for (name, on) in &plan.brokers {
            prop_assert_eq!(model.numbers[name], on.before);
        }
        prop_assert_eq!(model.stranded(), 0);
    }
}

/// The way by the book, write 8 and then read 8 at once, strands what is on its way: the model can tell.
#[test]
fn the_model_shows_what_the_book_strands() {
    let wide = Queues { read: 16, write: 16 };
    let mut model = Model::new(7, [("b".to_owned(), wide)].into());
    for _ in 0..30 {
        model.tick(true);
    }
    model.numbers.insert("b".into(), Queues { read: 16, write: 8 });
    model.tick(true);
    model.numbers.insert("b".into(), Queues { read: 8, write: 8 });
    assert!(model.stranded() > 0);
}

fn shrink() -> (Model, Plan) {
    let wide = Queues { read: 16, write: 16 };
    let on = OnBroker {
        before: wide,
        target: Queues { read: 8, write: 8 },
    };
    let plan = Plan {
        topic: "T".into(),
        brokers: [("b".to_owned(), on)].into(),
    };
    (Model::new(3, [("b".to_owned(), wide)].into()), plan)
}

/// Goes until the machine drains.
fn draining(model: &mut Model, plan: &Plan, settings: Settings) -> Machine {
    let mut machine = Machine::new(plan.clone(), settings, model.now);
    while machine.step() != Step::Drain {
        if let Next::Write(writes) = machine.next(&model.look(plan)) {
            model.numbers.extend(writes);
        }
        model.tick(false);
    }
    machine
}

#[test]
fn a_group_that_does_not_move_ends_the_wait_with_its_name() {
    let (mut model, plan) = shrink();
    let mut machine = draining(&mut model, &plan, settings());
    model.ends.insert(("b".into(), 12), 5);
    let mut end = None;
    for _ in 0..300 {
        // Nobody reads.
        model.now += TICK;
        if let Next::End(e) = machine.next(&model.look(&plan)) {
            end = Some(e);
            break;
        }
    }
    let Some(End::Stalled(lines)) = end else {
        panic!("{end:?}")
    };
    assert!(lines[0].starts_with("G has 5 unread"), "{lines:?}");
    assert_eq!(
        machine.state(),
        "read 16 write 8 on b; every written queue is read, nothing lost"
    );
}

#[test]
fn before_the_first_look_the_state_claims_nothing() {
    let (model, plan) = shrink();
    let mut machine = Machine::new(plan.clone(), settings(), model.now);
    assert_eq!(
        machine.state(),
        "not looked at; the plan began at read 16 write 16 on b; what b has now is not known"
    );
    let write = Queues { read: 16, write: 8 };
    machine.note_numbers(&[("b".to_owned(), Ok(write))].into());
    assert_eq!(
        machine.state(),
        "read 16 write 8 on b; every written queue is read, nothing lost"
    );
    machine.note_numbers(&[("b".to_owned(), Err("refused".to_owned()))].into());
    assert!(machine.state().ends_with("; what b has now is not known"));
}

#[test]
fn the_list_shows_every_step_and_what_the_present_one_waits_for() {
    let (mut model, plan) = shrink();
    let mut machine = draining(&mut model, &plan, settings());
    model.ends.insert(("b".into(), 12), 5);
    machine.next(&model.look(&plan));
    let list = machine.checks();
    let steps: Vec<(CheckState, &str)> = list
        .iter()
        .filter(|check| check.is_step)
        .map(|check| (check.state, check.text.as_str()))
        .collect();
    assert_eq!(
        steps,
        [
            (CheckState::Met, "write 16 → 8 on b"),
            (CheckState::Met, "name servers show it"),
            (CheckState::Waiting, "drain queues 8-15"),
            (CheckState::Later, "read 16 → 8 on b"),
            (CheckState::Later, "name servers show it"),
        ]
    );
    let of_drain = |state: CheckState| -> Vec<&str> {
        list.iter()
            .filter(|c| !c.is_step && c.step == Step::Drain && c.state == state)
            .map(|c| c.text.as_str())
            .collect()
    };
    assert!(of_drain(CheckState::Waiting).contains(&"G (online) has 5 unread and 0 in flight"));
    assert!(of_drain(CheckState::Met).contains(&"no delayed, timed or half message will land in them"));
}

#[test]
fn the_deadline_names_what_was_waited_for() {
    let (mut model, plan) = shrink();
    let mut machine = draining(
        &mut model,
        &plan,
        Settings {
            deadline: Duration::from_secs(120),
            ..settings()
        },
    );
    model.late.push(Late {
        at: i64::MAX,
        broker: "b".into(),
        queue: 9,
        half: false,
    });
    loop {
        model.tick(false);
        match machine.next(&model.look(&plan)) {
            Next::Wait(..) => {}
            Next::End(End::Deadline(lines)) => {
                assert!(lines.iter().any(|l| l.contains("1 delayed")), "{lines:?}");
                break;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_way_says_its_step_of_how_many_and_what_it_waits_for_even_from_its_file() {
    let (mut model, plan) = shrink();
    let first = Machine::new(plan.clone(), settings(), model.now).progress();
    assert_eq!(
        (first.at, first.of, first.place().as_str()),
        (1, 5, "step 1 of 5")
    );
    assert_eq!(first.step, "write 16 → 8 on b");
    assert_eq!(
        first.left,
        [
            "name servers show it",
            "drain queues 8-15",
            "read 16 → 8 on b",
            "name servers show it"
        ]
    );
    let mut machine = draining(&mut model, &plan, settings());
    let entered = model.now - TICK;
    machine.next(&model.look(&plan));
    let at = machine.progress();
    assert_eq!((at.at, at.of, at.done), (3, 5, false));
    assert_eq!(at.step, "drain queues 8-15");
    assert_eq!((at.since_ms, at.seen_ms), (entered, model.now));
    // 60 s less the two that have passed.
    let wait = "59s more for producers to see the new number";
    assert!(at.waits.iter().any(|what| what == wait), "{:?}", at.waits);
    assert_eq!(at.left, ["read 16 → 8 on b", "name servers show it"]);
    // Another process knows what it waits for as well.
    let text = serde_json::to_string(&machine).unwrap();
    let kept = serde_json::from_str::<Machine>(&text).unwrap().progress();
    assert_eq!(
        kept,
        Progress {
            met: Vec::new(),
            ..at
        }
    );
    let mut steps = vec![3];
    for _ in 0..1_000 {
        let next = machine.next(&model.look(&plan));
        steps.push(machine.progress().at);
        match next {
            Next::End(End::Done) => break,
            Next::Write(writes) => model.numbers.extend(writes),
            other => assert!(matches!(other, Next::Wait(..)), "{other:?}"),
        }
        model.tick(false);
    }
    assert!(steps.is_sorted(), "{steps:?}");
    let end = machine.progress();
    assert_eq!((end.at, end.of, end.done), (5, 5, true));
    assert!(end.left.is_empty() && end.waits.is_empty(), "{end:?}");
}

#[test]
fn somebody_elses_change_stops_the_way() {
    let (mut model, plan) = shrink();
    let mut machine = draining(&mut model, &plan, settings());
    model.numbers.insert("b".into(), Queues { read: 16, write: 16 });
    assert!(matches!(
        machine.next(&model.look(&plan)),
        Next::End(End::Changed(_))
    ));
}

#[test]
fn a_broker_that_is_not_seen_three_times_stops_the_way() {
    let (mut model, plan) = shrink();
    let mut machine = draining(&mut model, &plan, settings());
    let mut seen = model.look(&plan);
    seen.brokers.insert("b".into(), Err("connection refused".into()));
    assert!(matches!(machine.next(&seen), Next::Wait(..)));
    assert!(matches!(machine.next(&seen), Next::Wait(..)));
    assert!(matches!(machine.next(&seen), Next::End(End::Unreachable(_))));
}

#[test]
fn one_half_of_the_way_changes_one_number_only() {
    let (mut model, mut plan) = shrink();
    let on = plan.brokers.get_mut("b").unwrap();
    on.target = Queues { read: 16, write: 8 };
    let mut machine = Machine::new(
        plan.clone(),
        Settings {
            phase: Phase::Write,
            ..settings()
        },
        model.now,
    );
    loop {
        match machine.next(&model.look(&plan)) {
            Next::Write(writes) => model.numbers.extend(writes),
            Next::End(end) => {
                assert_eq!(end, End::Done);
                break;
            }
            Next::Wait(..) | Next::Begin(_) => {}
        }
        model.tick(false);
    }
    assert_eq!(model.numbers["b"], Queues { read: 16, write: 8 });
}

/// A look that does not see every group proves nothing about what pop clients hold.
#[test]
fn a_look_that_fails_does_not_count_as_read() {
    let (mut model, plan) = shrink();
    let mut machine = draining(&mut model, &plan, settings());
    let begun = model.now;
    loop {
        let mut seen = model.look(&plan);
        let drained = seen.drained.as_mut().unwrap();
        drained.groups.get_mut("G").unwrap().pops = true;
        if model.now < begun + 100_000 {
            drained.groups.clear();
            drained.unknown.push("groups on b: timeout".into());
        }
        match machine.next(&seen) {
            Next::Wait(..) => model.tick(false),
            Next::Write(_) => break,
            other => panic!("{other:?}"),
        }
    }
    let waited = model.now - begun;
    assert!((160_000..170_000).contains(&waited), "{waited} ms");
}

#[test]
fn what_pop_clients_may_hold_is_waited_for_after_the_backlog_is_gone() {
    let (mut model, plan) = shrink();
    let mut machine = draining(&mut model, &plan, settings());
    let begun = model.now;
    loop {
        let mut seen = model.look(&plan);
        let drained = seen.drained.as_mut().unwrap();
        drained.groups.get_mut("G").unwrap().pops = true;
        // An acknowledgement is missing until a minute later.
        drained.groups.get_mut("G").unwrap().inflight = i64::from(model.now < begun + 60_000);
        match machine.next(&seen) {
            Next::Wait(..) => model.tick(false),
            Next::Write(writes) => {
                assert_eq!(writes[0].1, Queues { read: 8, write: 8 });
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let waited = model.now - begun;
    assert!((120_000..130_000).contains(&waited), "{waited} ms");
}

fn grow() -> (Model, Plan) {
    let on = OnBroker {
        before: Queues { read: 8, write: 8 },
        target: Queues { read: 16, write: 16 },
    };
    let plan = Plan {
        topic: "T".into(),
        brokers: [("b".to_owned(), on)].into(),
    };
    (Model::new(3, [("b".to_owned(), on.before)].into()), plan)
}

/// Producers get no queue in which a group has no place, nor while it is not known which groups there are.
#[test]
fn groups_get_their_places_before_producers_get_the_queues() {
    let (mut model, plan) = grow();
    let mut machine = Machine::new(plan.clone(), settings(), model.now);
    let place = begins::Begin {
        broker: "b".into(),
        queue: 9,
        group: "G".into(),
        offset: 70,
        passed_over: 30,
    };
    let (mut blind, mut placed) = (3, false);
    let mut said = Vec::new();
    for _ in 0..100 {
        let mut seen = model.look(&plan);
        let begins = seen.begins.as_mut().unwrap();
        if !placed {
            begins.missing.push(place.clone());
        }
        if machine.step() == Step::Positions && blind > 0 {
            blind -= 1;
            begins.unknown.push("groups on b: timeout".into());
        }
        match machine.next(&seen) {
            Next::Write(writes) => {
                assert!(placed || writes[0].1.write == 8, "{writes:?}");
                model.numbers.extend(writes);
            }
            Next::Begin(places) => {
                assert_eq!((blind, &places), (0, &vec![place.clone()]));
                placed = true;
            }
            Next::Wait(lines, _) => said.extend(lines),
            Next::End(end) => {
                assert_eq!(end, End::Done);
                break;
            }
        }
        model.tick(true);
    }
    assert_eq!(model.numbers["b"], Queues { read: 16, write: 16 });
    assert!(placed && said.iter().any(|line| line == "groups on b: timeout"));
    let told = "G begins at 70 in b/9: 30 older messages there are not read by it";
    assert!(
        machine.notes().iter().any(|note| note == told),
        "{:?}",
        machine.notes()
    );
}

/// Who is online is asked again as long as a broker does not say, however long that takes.
#[test]
fn a_broker_that_does_not_say_who_is_online_is_waited_for() {
    let (mut model, plan) = grow();
    let mut machine = Machine::new(plan.clone(), settings(), model.now);
    for _ in 0..200 {
        let mut seen = model.look(&plan);
        seen.unowned.clear();
        seen.unknown.push("groups on b: timeout".into());
        match machine.next(&seen) {
            Next::Write(writes) => model.numbers.extend(writes),
            Next::Wait(..) => {}
            other => panic!("{other:?}"),
        }
        model.tick(false);
    }
    assert_eq!(machine.step(), Step::Readers);
}

/// Goes until the machine looks for messages in the new queues: 2 and 3 of `b`, where 3 has five of a longer life.
fn with_new_queues() -> (Machine, Model, Plan) {
    let before = Queues { read: 2, write: 2 };
    let on = OnBroker {
        before,
        target: Queues { read: 4, write: 4 },
    };
    let plan = Plan {
        topic: "T".into(),
        brokers: [("b".to_owned(), on)].into(),
    };
    let mut model = Model::new(3, [("b".to_owned(), before)].into());
    model.ends.insert(("b".into(), 3), 5);
    let mut machine = Machine::new(plan.clone(), settings(), model.now);
    while machine.step() != Step::Traffic {
        if let Next::Write(writes) = machine.next(&model.look(&plan)) {
            model.numbers.extend(writes);
        }
        model.tick(false);
    }
    (machine, model, plan)
}

/// The condition that a look at new queues leaves.
fn of_traffic(machine: &Machine) -> Vec<(CheckState, String)> {
    let list = machine.checks().into_iter();
    list.filter(|check| check.step == Step::Traffic && !check.is_step)
        .map(|check| (check.state, check.text))
        .collect()
}

#[test]
fn messages_of_a_longer_life_are_not_new_ones() {
    let (mut machine, mut model, plan) = with_new_queues();
    model.ends.insert(("b".into(), 2), 1);
    machine.next(&model.look(&plan));
    let none = "messages in new queues: none yet in b/3".to_owned();
    assert_eq!(of_traffic(&machine), [(CheckState::Waiting, none)]);
    model.ends.insert(("b".into(), 3), 6);
    assert_eq!(machine.next(&model.look(&plan)), Next::End(End::Done));
    assert_eq!(
        of_traffic(&machine),
        [(CheckState::Met, "messages in every new queue".to_owned())]
    );
}

#[test]
fn a_way_that_is_resumed_knows_what_was_there_before() {
    let (machine, mut model, plan) = with_new_queues();
    // It was interrupted; meanwhile messages came to both.
    let text = serde_json::to_string(&machine).unwrap();
    model.ends.insert(("b".into(), 2), 1);
    model.ends.insert(("b".into(), 3), 6);
    let mut machine: Machine = serde_json::from_str(&text).unwrap();
    assert_eq!(machine.next(&model.look(&plan)), Next::End(End::Done));
    // A file of before has no such ends.
    let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
    old.as_object_mut()
        .unwrap()
        .remove("first_ends")
        .expect("it is kept");
    serde_json::from_value::<Machine>(old).unwrap();
}

#[test]
fn a_new_queue_whose_end_is_not_told_is_unknown() {
    let (mut machine, mut model, plan) = with_new_queues();
    model.ends.insert(("b".into(), 2), 1);
    let mut seen = model.look(&plan);
    seen.ends.remove(&("b".to_owned(), 3));
    assert!(matches!(machine.next(&seen), Next::Wait(..)));
    let unknown = "messages in new queues: not known of b/3".to_owned();
    assert_eq!(of_traffic(&machine), [(CheckState::Unknown, unknown)]);
    // It is no condition: the way ends, and says so.
    seen.now_ms += 60_000;
    assert_eq!(machine.next(&seen), Next::End(End::Done));
    assert!(
        machine
            .notes()
            .contains(&"whether messages came to b/3 is not known".to_owned()),
        "{:?}",
        machine.notes()
    );
}

/// A broker that refuses what it is told is not somebody else who changes the topic.
#[test]
fn writes_that_fail_end_the_way_with_their_reason() {
    let end = |why: Option<&str>| {
        let (model, plan) = shrink();
        let mut machine = Machine::new(plan.clone(), settings(), model.now);
        for _ in 0..20 {
            match machine.next(&model.look(&plan)) {
                Next::Write(_) => machine.note_failed(why.map(|why| ("b".to_owned(), why.to_owned()))),
                Next::End(end) => return end,
                _ => {}
            }
        }
        panic!("no end; step {:?}", machine.step())
    };
    assert_eq!(
        end(Some("no permission")),
        End::Unreachable(vec!["b: no permission".into()])
    );
    assert_eq!(
        end(None),
        End::Changed(vec!["b does not take read 16 write 8".into()])
    );
}
