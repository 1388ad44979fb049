//! How often, and how many at once, one server is asked: a budget of calls by address, shared by everybody who asks.
//!
//! [`Client::exchange`](super::Client::exchange) is the only place where a call leaves, and where it waits for its turn. Turns
//! go by [`Rank`], then by arrival. A server never gets more than so many calls in any second, nor more than so many at
//! once.
//!
//! A part of both is kept for the first rank, so that a screen that asks much does not make the others blind.
//!
//! Of calls that share one absolute [`Deadline`] the time that they stand in a line which moves does
//! not count against it. A line that does not move (all calls hang) costs one deadline, as without a budget.
//! At one or two calls a second the next call leaves a whole second after the last and the rounding of timers later; a
//! line moves as long as that takes no longer than a tenth of a second more.
//!
//! A call of the second rank that has waited for [`PATIENCE`] goes with those of the first: a budget that those use up
//! entirely must not stop everything else for ever.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Deadline;

/// Calls to one server that are on their way at once.
pub const IN_FLIGHT: usize = 4;
/// The stretch of time in which calls are counted.
const WINDOW: Duration = Duration::from_secs(1);
/// How long calls of the first rank go before one of the second.
const PATIENCE: Duration = Duration::from_secs(5);
/// Addresses that are remembered; those at rest are forgotten first.
const DOORS: usize = 1024;
/// Deadlines whose waits are remembered.
const WAITS: usize = 256;

tokio::task_local! {
    static RANK: Rank;
}

/// Who goes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// What every screen stands on: is the server alive, rows on the screen.
    First,
    /// What one screen or one command asks.
    #[default]
    Second,
    /// What nobody looks at now. It does not outwait its deadline.
    Spare,
}

impl Rank {
    /// Runs `work` with every call of it in this rank.
    pub async fn of<F: Future>(self, work: F) -> F::Output {
        RANK.scope(self, work).await
    }

    /// The rank of the running task.
    pub(super) fn here() -> Self {
        RANK.try_with(|rank| *rank).unwrap_or_default()
    }
}

/// A budget of calls by address.
#[derive(Debug)]
pub struct Pace {
    per_second: NonZeroU32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    doors: HashMap<String, Door>,
    /// By the end of an operation: how long its calls stood in lines that moved, and until when that is counted.
    waits: HashMap<Instant, (Duration, Instant)>,
    arrivals: u64,
}

/// The line in front of one server.
#[derive(Debug, Default)]
struct Door {
    /// When the newest calls left, oldest first; those of the last second.
    left: VecDeque<Instant>,
    last: Option<Instant>,
    /// When a call of the second rank passed those of the first.
    passed: Option<Instant>,
    flying: usize,
    waiting: BTreeMap<(Rank, u64), Waiting>,
}

/// A call in line.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    woken: Arc<Notify>,
}

impl Door {
    fn forget(&mut self, now: Instant) {
        while self.left.front().is_some_and(|at| *at + WINDOW <= now) {
            self.left.pop_front();
        }
    }

    /// A call left it a moment ago: those in line come nearer.
    fn moves(&self, now: Instant) -> bool {
        self.last
            .is_some_and(|last| now.saturating_duration_since(last) <= WINDOW + WINDOW / 10)
    }

    /// The call of the second rank that has waited longest, and from when on it may pass those of the first.
    fn passer(&self) -> Option<((Rank, u64), Instant)> {
        let mut seconds = self.waiting.range((Rank::Second, 0)..(Rank::Spare, 0));
        let (number, waiting) = seconds.next()?;
        let patient = waiting.since + PATIENCE;
        let again = self.passed.map_or(patient, |at| at + 2 * WINDOW);
        Some((*number, patient.max(again)))
    }

    /// Whose turn is next, and whether it passes calls of the first rank.
    fn first(&self, now: Instant) -> Option<((Rank, u64), bool)> {
        if let Some((number, from)) = self.passer()
            && from <= now
        {
            return Some((number, true));
        }
        self.waiting.first_key_value().map(|(number, _)| (*number, false))
    }

    /// Wakes whose turn is next, and who may pass soon, which looks at when that is.
    fn wake_first(&self) {
        let first = self.first(Instant::now()).map(|(number, _)| number);
        let passer = self.passer().map(|(number, _)| number);
        for number in [first, passer].into_iter().flatten() {
            if let Some(waiting) = self.waiting.get(&number) {
                waiting.woken.notify_one();
            }
        }
    }
}

/// What a call in line has to do.
enum Next {
    Go(Duration),
    GiveUp,
    /// Look again when woken, or then.
    Wait(Instant),
}

impl Pace {
    /// At most that many calls a second to one address, and [`IN_FLIGHT`] at once.
    pub fn new(per_second: NonZeroU32) -> Self {
        Self {
            per_second,
            state: Mutex::default(),
        }
    }

    /// Calls a second.
    pub const fn per_second(&self) -> u32 {
        self.per_second.get()
    }

    /// Calls a second and at once that a rank may use.
    fn share(&self, rank: Rank) -> (usize, usize) {
        let all = self.per_second.get() as usize;
        match rank {
            Rank::First => (all, IN_FLIGHT),
            Rank::Second | Rank::Spare => ((all - all.div_ceil(5)).max(1), IN_FLIGHT - 1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls of the lower ranks that may leave for `addr` at this moment without any wait.
    pub fn room(&self, addr: &str) -> usize {
        let now = Instant::now();
        let (per_second, _) = self.share(Rank::Spare);
        let mut state = self.lock();
        let Some(door) = state.doors.get_mut(addr) else {
            return per_second;
        };
        door.forget(now);
        per_second.saturating_sub(door.left.len() + door.waiting.len())
    }

    /// A call to `addr` left a moment ago, so that the line there moves.
    pub(super) fn moves(&self, addr: &str) -> bool {
        let now = Instant::now();
        self.lock().doors.get(addr).is_some_and(|door| door.moves(now))
    }

    /// Waits for a turn. Gives what is left of the deadline then; `None` when the deadline came first.
    pub(super) async fn turn(
        self: &Arc<Self>,
        addr: &str,
        rank: Rank,
        deadline: Deadline,
    ) -> Option<(Turn, Duration)> {
        let entered = Instant::now();
        let place = self.stand_in_line(addr, rank);
        loop {
            match self.look(&place, deadline.instant(), entered) {
                Next::Go(left) => {
                    let turn = Turn {
                        pace: Arc::clone(self),
                        addr: addr.to_owned(),
                    };
                    return Some((turn, left));
                }
                Next::GiveUp => return None,
                Next::Wait(until) => {
                    // Woken early or late, it looks again.
                    let _ = tokio::time::timeout_at(until, place.woken.notified()).await;
                }
            }
        }
    }

    fn stand_in_line(self: &Arc<Self>, addr: &str, rank: Rank) -> Place {
        let woken = Arc::new(Notify::new());
        let mut state = self.lock();
        state.arrivals += 1;
        let number = (rank, state.arrivals);
        if state.doors.len() >= DOORS && !state.doors.contains_key(addr) {
            let now = Instant::now();
            (state.doors).retain(|_, d| d.flying > 0 || !d.waiting.is_empty() || d.moves(now));
        }
        let door = state.doors.entry(addr.to_owned()).or_default();
        let waiting = Waiting {
            since: Instant::now(),
            woken: Arc::clone(&woken),
        };
        door.waiting.insert(number, waiting);
        Place {
            pace: Arc::clone(self),
            addr: addr.to_owned(),
            number,
            woken,
        }
    }

    fn look(&self, place: &Place, end: Instant, entered: Instant) -> Next {
        let now = Instant::now();
        let mut state = self.lock();
        let State { doors, waits, .. } = &mut *state;
        let Some(door) = doors.get_mut(&place.addr) else {
            return Next::GiveUp; // It stands in line as long as its place lives.
        };
        door.forget(now);
        let moves = door.moves(now);
        let waited = waits.get(&end).map_or(Duration::ZERO, |(waited, _)| *waited);
        let may_stay = moves && place.number.0 != Rank::Spare;
        if now >= end + waited && !may_stay {
            return Next::GiveUp;
        }
        // A line that stands still is looked at when the deadline is over, one that moves a moment later.
        let patience = (end + waited).max(now + WINDOW / 10);
        let first = door.first(now).filter(|(number, _)| *number == place.number);
        let Some((_, passes)) = first else {
            // It looks again when it may pass.
            let from = door.passer().filter(|(number, _)| *number == place.number);
            return Next::Wait(from.map_or(patience, |(_, from)| patience.min(from)));
        };
        let rank = if passes { Rank::First } else { place.number.0 };
        let (per_second, in_flight) = self.share(rank);
        let until = match door.passer() {
            Some((number, from)) if number == place.number && from > now => patience.min(from),
            _ => patience,
        };
        if door.flying >= in_flight {
            return Next::Wait(until);
        }
        if let Some(over) = door.left.len().checked_sub(per_second) {
            let free = door.left.get(over).map_or(now, |at| *at + WINDOW);
            return Next::Wait(free.min(until));
        }
        door.waiting.remove(&place.number);
        door.left.push_back(now);
        door.last = Some(now);
        if passes {
            door.passed = Some(now);
        }
        door.flying += 1;
        door.wake_first();
        let waited = if moves {
            count_wait(waits, end, entered, now)
        } else {
            waited
        };
        Next::Go((end + waited).saturating_duration_since(now))
    }
}

/// Adds a wait from `entered` to `now`, without what another call of the same operation waited meanwhile.
fn count_wait(
    waits: &mut HashMap<Instant, (Duration, Instant)>,
    end: Instant,
    entered: Instant,
    now: Instant,
) -> Duration {
    let known = waits.get(&end).copied();
    let (before, until) = known.unwrap_or((Duration::ZERO, entered));
    let more = now.saturating_duration_since(entered.max(until));
    if more.is_zero() {
        return before;
    }
    if known.is_none() && waits.len() >= WAITS {
        waits.retain(|end, (waited, until)| (*end + *waited).max(*until) + WINDOW > now);
    }
    waits.insert(end, (before + more, now));
    before + more
}

/// A place in line. Whoever gives up makes room.
struct Place {
    pace: Arc<Pace>,
    addr: String,
    number: (Rank, u64),
    woken: Arc<Notify>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(door) = self.pace.lock().doors.get_mut(&self.addr)
            && door.waiting.remove(&self.number).is_some()
        {
            door.wake_first();
        }
    }
}

/// A call on its way. The next one may follow when it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    pace: Arc<Pace>,
    addr: String,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(door) = self.pace.lock().doors.get_mut(&self.addr) {
            door.flying = door.flying.saturating_sub(1);
            door.wake_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDR: &str = "10.0.0.1:10911";

    fn pace(per_second: u32) -> Arc<Pace> {
        Arc::new(Pace::new(NonZeroU32::new(per_second).unwrap()))
    }

    fn secs(s: f64) -> Duration {
        Duration::from_secs_f64(s)
    }

    /// A call that takes `takes`; when it left, and with how much of its deadline.
    async fn call(
        pace: &Arc<Pace>,
        rank: Rank,
        deadline: Deadline,
        takes: Duration,
    ) -> Option<(Instant, Duration)> {
        let (turn, left) = pace.turn(ADDR, rank, deadline).await?;
        let at = Instant::now();
        tokio::time::sleep(takes).await;
        drop(turn);
        Some((at, left))
    }

    #[tokio::test(start_paused = true)]
    async fn no_second_has_more_calls_than_the_budget_nor_more_than_four_at_once() {
        let pace = pace(20);
        let flying = Mutex::new((0usize, 0usize));
        let start = Instant::now();
        let deadline = Deadline::after(secs(5.0));
        let calls = (0..300).map(|i| {
            let (pace, flying) = (&pace, &flying);
            async move {
                tokio::time::sleep(Duration::from_millis(i * 3)).await;
                let rank = if i % 4 == 0 { Rank::First } else { Rank::Second };
                let (turn, left) = pace.turn(ADDR, rank, deadline).await.expect("the line moves");
                let at = Instant::now();
                {
                    let mut flying = flying.lock().unwrap();
                    flying.0 += 1;
                    flying.1 = flying.1.max(flying.0);
                }
                tokio::time::sleep(Duration::from_millis(17)).await;
                flying.lock().unwrap().0 -= 1;
                drop(turn);
                (at, left)
            }
        });
        let mut left = futures_util::future::join_all(calls).await;
        left.sort();
        for many in left.windows(21) {
            assert!(many[20].0 - many[0].0 >= WINDOW, "{many:?}");
        }
        assert_eq!(flying.into_inner().unwrap().1, IN_FLIGHT);
        // 75 of the first rank at 20 a second and 225 at 16 a second take 17.8 s, of which those of the first second are
        // not waited for; the deadline waited.
        let took = left[299].0 - start;
        assert!((secs(16.5)..secs(17.9)).contains(&took), "{took:?}");
        assert!(left.iter().all(|(_, left)| *left > secs(3.5)), "{left:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_hang_cost_one_deadline() {
        let pace = pace(20);
        let start = Instant::now();
        let deadline = Deadline::after(secs(2.0));
        let calls = (0..12).map(|_| async {
            let Some((turn, left)) = pace.turn(ADDR, Rank::First, deadline).await else {
                return false;
            };
            tokio::time::sleep(left).await;
            drop(turn);
            left > Duration::ZERO
        });
        let sent = futures_util::future::join_all(calls).await;
        assert_eq!(sent.iter().filter(|sent| **sent).count(), IN_FLIGHT);
        assert!(start.elapsed() < secs(2.2), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_rank_passes_and_the_spare_one_gives_up() {
        let pace = pace(2);
        let start = Instant::now();
        let long = Deadline::after(secs(60.0));
        let screen =
            futures_util::future::join_all((0..20).map(|_| call(&pace, Rank::Second, long, secs(0.01))));
        let probe = async {
            tokio::time::sleep(secs(0.5)).await;
            call(&pace, Rank::First, Deadline::after(secs(2.0)), secs(0.01)).await
        };
        let spare = async {
            tokio::time::sleep(secs(0.5)).await;
            let gave_up = call(&pace, Rank::Spare, Deadline::after(secs(2.0)), secs(0.01)).await;
            (gave_up, Instant::now())
        };
        let (screen, probe, (gave_up, at)) = tokio::join!(screen, probe, spare);
        assert!(screen.iter().all(Option::is_some));
        let probe = probe.expect("a turn").0 - start;
        assert!((secs(0.5)..secs(0.6)).contains(&probe), "{probe:?}");
        assert_eq!(gave_up, None);
        assert!((secs(2.5)..secs(2.8)).contains(&(at - start)), "{:?}", at - start);
        assert_eq!(pace.room("another"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_a_second_that_leaves_late_still_moves() {
        for budget in [1, 2] {
            let pace = pace(budget);
            // Timers go by whole milliseconds, so that each call leaves a part of one late.
            tokio::time::advance(Duration::from_micros(300)).await;
            let deadline = Deadline::after(secs(2.0));
            let calls = (0..8).map(|_| call(&pace, Rank::Second, deadline, secs(0.01)));
            let left = futures_util::future::join_all(calls).await;
            assert!(left.iter().all(Option::is_some), "{budget}: {left:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_that_the_first_rank_uses_up_lets_the_second_pass() {
        for budget in [1, 2] {
            let pace = pace(budget);
            let start = Instant::now();
            let long = Deadline::after(secs(600.0));
            // Twice as many of the first rank as there is room for, for ever.
            let firsts = async {
                let beats = (0..240).map(|n| {
                    let pace = &pace;
                    async move {
                        tokio::time::sleep(secs(0.25 * f64::from(n))).await;
                        call(pace, Rank::First, long, secs(0.01)).await
                    }
                });
                futures_util::future::join_all(beats).await
            };
            let seconds = (0..4).map(|_| call(&pace, Rank::Second, long, secs(0.01)));
            let seconds = async {
                tokio::time::sleep(secs(1.0)).await;
                futures_util::future::join_all(seconds).await
            };
            let (firsts, seconds) = tokio::join!(firsts, seconds);
            let mut late: Vec<Duration> = seconds
                .into_iter()
                .map(|left| left.expect("a turn").0 - start)
                .collect();
            late.sort();
            assert!(late[0] >= secs(6.0) && late[3] < secs(20.0), "{budget}: {late:?}");
            // The first rank keeps at least half.
            let early = firsts
                .iter()
                .flatten()
                .filter(|(at, _)| *at - start < secs(20.0))
                .count();
            assert!(early >= 10 * budget as usize - 1, "{budget}: {early}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_leaves_the_line() {
        let pace = pace(1);
        let long = Deadline::after(secs(60.0));
        call(&pace, Rank::First, long, Duration::ZERO).await.unwrap();
        let given_up = tokio::time::timeout(secs(0.3), call(&pace, Rank::First, long, Duration::ZERO)).await;
        assert!(given_up.is_err());
        let start = Instant::now();
        call(&pace, Rank::Second, long, Duration::ZERO).await.unwrap();
        assert!(start.elapsed() <= secs(0.8), "{:?}", start.elapsed());
        assert_eq!(pace.room(ADDR), 0);
        tokio::time::sleep(secs(1.0)).await;
        assert_eq!(pace.room(ADDR), 1);
    }
}
