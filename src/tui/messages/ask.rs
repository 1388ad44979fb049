//! Questions of the screen, answered with the functions that the commands use. Nothing here commits or registers.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::newest::Newest;
use super::search::{Answer, BYTES, Listing, Mark, Mode, PAGE, Question, ROWS, Search, Sieve, Stop};
use crate::client::admin::message::QueueAt;
use crate::client::find::Name;
use crate::client::follow::{AGAIN, Follow, Followed};
use crate::client::ordered::{Met, Pace};
use crate::client::stretch::{From, Select, picked};
use crate::client::time::{Zone, now_ms};
use crate::client::{Client, Error, Message, Server};
use crate::protocol::message_id::{UniqueKey, parse_offset_id};
use crate::tui::view::text;

/// Calls of one broker a second that a search makes; the polling of the console has the rest of its budget.
const CALLS: u32 = 15;
/// Pause between two pictures of a search that goes on.
const TELL: Duration = Duration::from_millis(200);
/// Messages that a tail begins with, over all queues.
const BEGIN: i64 = 200;
/// Notices of a tail that are shown.
const NOTICES: usize = 2;
/// Pause between two looks of a tail for new queues.
const REFRESH: Duration = Duration::from_secs(10);

/// Answers a question. A search that goes on tells what it has so far.
pub async fn answer(
    client: Arc<Client>,
    question: Question,
    zone: jiff::tz::TimeZone,
    tell: impl Fn(Answer) + Send + Sync,
) -> Result<Answer, String> {
    let zone = Zone::of(zone);
    match question {
        Question::Search(search) => {
            let tell = |listing| tell(Answer::Search(listing));
            let found = match search.mode {
                Mode::Live => live(client, &search, &tell).await,
                Mode::Time => stretch(&client, &search, &zone, &tell).await,
                Mode::Key => key(&client, &search, &zone).await,
                Mode::Id => id(&client, &search).await,
                Mode::Offset => offset(&client, &search).await,
            };
            found.map(Answer::Search)
        }
        Question::Way(mark, trace_topic) => {
            let way = client.way(&mark.0, &trace_topic, |ms| zone.text(ms)).await;
            Ok(Answer::Way(Box::new(way)))
        }
    }
}

/// Messages as they are kept: those that pass the filter, the newest of them.
struct Kept {
    newest: Newest,
    listing: Listing,
    sieve: Option<Sieve>,
}

impl Kept {
    fn new(search: &Search) -> Result<Self, String> {
        Ok(Self {
            newest: Newest::default(),
            listing: Listing::default(),
            sieve: Sieve::parse(&search.keep).transpose()?,
        })
    }

    fn push(&mut self, message: Message) {
        if self.sieve.as_ref().is_none_or(|sieve| sieve.passes(&message)) {
            self.newest.push(message);
        }
    }

    fn picture(&self) -> Listing {
        Listing {
            rows: self.newest.rows().cloned().collect(),
            cut: self.newest.cut(),
            ..self.listing.clone()
        }
    }

    fn done(mut self) -> Listing {
        self.listing.over = true;
        self.picture()
    }

    /// Takes what a search by time comes upon. It stops before the first message that is newer than `until`, and
    /// where it would look at more than `bound`.
    fn meet(&mut self, met: Met, until: i64, bound: u64) -> ControlFlow<()> {
        if matches!(&met, Met::Message(message) if message.stored_ms > until) {
            return ControlFlow::Break(());
        }
        if self.listing.scanned >= bound {
            self.listing.stopped = Some(Stop::Scanned(bound));
            return ControlFlow::Break(());
        }
        match met {
            Met::Message(message) => {
                self.listing.scanned += 1;
                self.push(*message);
            }
            Met::Passed(n) => self.listing.scanned += n,
        }
        ControlFlow::Continue(())
    }

    /// A broker was asked for the message of a place and gave none. Nearly every unique key reads as a place that
    /// holds nothing: that a broker says so is a note. Whatever else happens says nothing about the message.
    fn missed(&mut self, server: &Server, e: &Error) {
        if e.remote_code().is_some() {
            let note = format!("{} has no message there: {}", server, e.reason());
            self.listing.notes.push(note);
        } else {
            self.listing.failed.push(e.to_string());
        }
    }
}

fn no_route(topic: &str) -> String {
    format!("topic {topic} has no route: it does not exist, or its brokers are away")
}

/// Queues that could not be asked at first, and what was said of them. Each is followed once it can be.
struct Lost {
    queues: Vec<QueueAt>,
    /// By the address of the server, where it was one.
    words: Vec<(Option<String>, String)>,
}

impl Lost {
    /// Leaves out what was said of queues that are followed now.
    fn less(&mut self, followed: &[QueueAt]) {
        self.queues.retain(|at| !followed.contains(at));
        let queues = &self.queues;
        self.words.retain(|(addr, _)| match addr {
            Some(addr) => queues.iter().any(|at| at.broker.addr == *addr),
            None => !queues.is_empty(),
        });
    }

    fn words(&self) -> impl Iterator<Item = String> {
        self.words.iter().map(|(_, words)| words.clone())
    }
}

async fn live(
    client: Arc<Client>,
    search: &Search,
    tell: &(impl Fn(Listing) + Sync),
) -> Result<Listing, String> {
    let topic = search.topic.as_str();
    let route = client.route(topic).await.map_err(|e| e.reason())?;
    let queues = picked(&route.ok_or_else(|| no_route(topic))?, None, None);
    let each = BEGIN / i64::try_from(queues.len()).unwrap_or(1).max(1);
    let mut lost = Lost {
        queues: queues.clone(),
        words: Vec::new(),
    };
    let pace = Arc::new(Pace::per_second(CALLS));
    let mut kept = Kept::new(search)?;
    let (mut begins, mut there) = (Vec::new(), 0i64);
    for found in client
        .stretches(topic, queues, From::Last(each.max(1)), &pace)
        .await
    {
        match found {
            Ok((at, (begin, end))) => {
                // What the topic holds is told by the end of each queue; its beginning is near enough to 0.
                there = there.saturating_add(end);
                begins.push((at, begin));
            }
            Err(e) => {
                let addr = match &e {
                    Error::Call { server, .. } => Some(server.addr.clone()),
                    _ => None,
                };
                lost.words.push((addr, e.to_string()));
            }
        }
    }
    kept.listing.of = Some(there);
    kept.listing.failed = lost.words().collect();
    let followed = Followed {
        topic: topic.to_owned(),
        broker: None,
        queue: None,
        select: Select::all(),
        refresh: REFRESH,
        pace: Some(pace),
    };
    let mut follow = Follow::new(Arc::clone(&client), followed, Box::new(|_| true), begins);
    tell(kept.picture());
    let mut told = Instant::now();
    let mut news = false;
    let mut notices = VecDeque::new();
    loop {
        for message in follow.due(ROWS) {
            kept.push(message);
            news = true;
        }
        notices.extend(follow.notices());
        notices.drain(..notices.len().saturating_sub(NOTICES));
        kept.listing.scanned = follow.read();
        kept.listing.of = Some(there.max(i64::try_from(follow.read()).unwrap_or(i64::MAX)));
        lost.less(follow.queues());
        let silent = follow.silent().iter().map(|(who, why)| format!("{who}: {why}"));
        let failed: Vec<String> = lost.words().chain(silent).collect();
        if failed.is_empty() && !kept.listing.failed.is_empty() {
            // They spoke of what is over; the others of what happened.
            notices.retain(|notice: &String| !notice.ends_with(AGAIN));
        }
        let skipped = (follow.skipped() > 0).then(|| {
            format!(
                "{} not shown: more came than a tail reads; a search by time finds them",
                text::grouped(i64::try_from(follow.skipped()).unwrap_or(i64::MAX))
            )
        });
        let notes: Vec<String> = skipped.into_iter().chain(notices.iter().cloned()).collect();
        if failed != kept.listing.failed || notes != kept.listing.notes {
            kept.listing.failed = failed;
            kept.listing.notes = notes;
            news = true;
        }
        if news && told.elapsed() >= TELL {
            tell(kept.picture());
            told = Instant::now();
            news = false;
        }
        // A picture that is held back is told when its pause is over.
        let turn = match (follow.next_due(), news.then(|| told + TELL)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        follow.wait(turn).await.map_err(|e| e.to_string())?;
    }
}

async fn stretch(
    client: &Client,
    search: &Search,
    zone: &Zone,
    tell: &(impl Fn(Listing) + Sync),
) -> Result<Listing, String> {
    let topic = search.topic.as_str();
    let (from, until) = search.stretch(now_ms(), zone)?;
    let select = search
        .value("--tag")
        .map_or_else(Select::all, |tags| Select::Tags(tags.to_owned()));
    let route = client.route(topic).await.map_err(|e| e.reason())?;
    let queues = picked(&route.ok_or_else(|| no_route(topic))?, None, None);
    let pace = Pace::per_second(CALLS);
    let mut kept = Kept::new(search)?;
    let mut stretches = Vec::new();
    let from = from.map_or(From::Earliest, From::Time);
    for found in client.stretches(topic, queues, from, &pace).await {
        match found {
            Ok(stretch) => stretches.push(stretch),
            Err(e) => kept.listing.failed.push(e.to_string()),
        }
    }
    kept.listing.of = Some(behind(client, topic, &stretches, until, &pace).await);
    tell(kept.picture());
    let mut told = Instant::now();
    let mut visit = |met: Met| {
        let flow = kept.meet(met, until, search.bound);
        if told.elapsed() >= TELL {
            told = Instant::now();
            tell(kept.picture());
        }
        flow
    };
    let failed = client
        .walk_ordered(topic, stretches, &select, &pace, &mut visit)
        .await;
    kept.listing.failed.extend(failed.iter().map(ToString::to_string));
    Ok(kept.done())
}

/// Offsets from the beginnings of these stretches up to a time, epoch ms. Near enough to be told, not to read by: how
/// exactly a broker finds a time depends on its version.
async fn behind(
    client: &Client,
    topic: &str,
    stretches: &[(QueueAt, (i64, i64))],
    until: i64,
    pace: &Pace,
) -> i64 {
    let mut ends: Vec<i64> = stretches.iter().map(|(_, (_, end))| *end).collect();
    if until < now_ms() {
        let queues = stretches.iter().map(|(at, _)| at.clone()).collect();
        let from = From::Time(until.saturating_add(1));
        for (at, (first, _)) in client
            .stretches(topic, queues, from, pace)
            .await
            .into_iter()
            .flatten()
        {
            if let Some(index) = stretches.iter().position(|(known, _)| *known == at) {
                ends[index] = first;
            }
        }
    }
    let begins = stretches.iter().map(|(_, (begin, _))| *begin);
    begins
        .zip(ends)
        .map(|(begin, end)| end.saturating_sub(begin).max(0))
        .fold(0, i64::saturating_add)
}

async fn key(client: &Client, search: &Search, zone: &Zone) -> Result<Listing, String> {
    let (from, until) = search.stretch(now_ms(), zone)?;
    let window = (from.unwrap_or(0), until);
    let (key, most, tag) = (
        search.value("--key").unwrap_or_default(),
        search.most()?,
        search.value("--tag"),
    );
    let found = client
        .find_messages(&search.topic, Name::Key(key), window, most)
        .await
        .map_err(|e| e.reason())?
        .ok_or_else(|| no_route(&search.topic))?;
    let mut kept = Kept::new(search)?;
    kept.listing.scanned = (found.messages.len() + found.strangers) as u64;
    kept.listing.strangers = found.strangers;
    kept.listing.stopped = found.full.then_some(Stop::Hits(most));
    kept.listing.failed = found.failed.iter().map(ToString::to_string).collect();
    kept.listing.notes = vec![format!("index of {}", found.searched.join(", "))];
    for message in found.messages {
        if tag.is_none() || message.tag() == tag {
            kept.push(message);
        }
    }
    Ok(kept.done())
}

/// What an id says by itself, without asking anyone.
pub fn decoded(id: &str) -> Vec<String> {
    let mut lines = Vec::new();
    // The bytes of an offset id read as a key too: the upper half of its port, always 0, is the process then.
    if let Ok(key) = UniqueKey::parse(id)
        && key.pid != 0
    {
        lines.push(format!(
            "as a client's id: made at {}, process {}, message {} of it",
            key.ip, key.pid, key.counter
        ));
    }
    if let Ok((host, offset)) = parse_offset_id(id) {
        lines.push(format!(
            "as an offset id: broker {host}, commit log offset {offset}"
        ));
    }
    lines
}

async fn id(client: &Client, search: &Search) -> Result<Listing, String> {
    let id = search.value("--id").unwrap_or_default().trim();
    let mut kept = Kept::new(search)?;
    kept.listing.notes = decoded(id);
    if let Some(spot) = client.spot(id).await
        && spot.registered
    {
        match client
            .message_at(&spot.server, spot.offset, client.deadline())
            .await
        {
            Ok(message) => {
                kept.listing.scanned += 1;
                kept.push(message);
            }
            Err(e) => kept.missed(&spot.server, &e),
        }
    }
    match client
        .find_messages(&search.topic, Name::Unique(id), (0, i64::MAX), 32)
        .await
    {
        Ok(Some(found)) => {
            kept.listing.scanned += (found.messages.len() + found.strangers) as u64;
            kept.listing.failed = found.failed.iter().map(ToString::to_string).collect();
            let place = format!("unique-key index of {}", found.searched.join(", "));
            kept.listing.notes.push(place);
            for message in found.messages {
                if !kept.newest.rows().any(|m| Mark::id(m) == Mark::id(&message)) {
                    kept.push(message);
                }
            }
        }
        Ok(None) => kept.listing.failed.push(no_route(&search.topic)),
        Err(e) => kept.listing.failed.push(e.to_string()),
    }
    Ok(kept.done())
}

async fn offset(client: &Client, search: &Search) -> Result<Listing, String> {
    let (queue, wanted) = search.place()?;
    let broker = search.value("--broker").filter(|b| !b.is_empty());
    let topic = search.topic.as_str();
    let route = client.route(topic).await.map_err(|e| e.reason())?;
    let route = route.ok_or_else(|| no_route(topic))?;
    let mut found = picked(&route, broker, Some(queue)).into_iter();
    let at = match (found.next(), found.next()) {
        (Some(at), None) => at,
        (None, _) => return Err(format!("topic {topic} has no queue {queue} there")),
        (Some(a), Some(b)) => {
            return Err(format!(
                "queue {queue} is on several brokers: name {} or {}",
                a.broker, b.broker
            ));
        }
    };
    let mut kept = Kept::new(search)?;
    let (begin, end) = client
        .stretch(&at, topic, From::Earliest)
        .await
        .map_err(|e| e.to_string())?;
    let holds = format!("the queue holds offsets {begin} up to, not including, {end}");
    if wanted < begin {
        kept.listing
            .notes
            .push(format!("offset {} is gone; {holds}", wanted));
    } else if wanted >= end {
        kept.listing
            .notes
            .push(format!("offset {} is not there yet; {holds}", wanted));
    } else {
        kept.listing.notes.push(holds);
    }
    kept.listing.of = Some(end.saturating_sub(wanted.max(begin)).max(0));
    // The first ones are wanted: reading ends where any of them would have to go.
    kept.newest = Newest::within(PAGE, usize::MAX);
    let mut visit = |message: Message| {
        kept.listing.scanned += 1;
        kept.push(message);
        kept.listing.stopped = match kept.newest.size() {
            (PAGE.., _) => Some(Stop::Rows(PAGE)),
            (_, BYTES..) => Some(Stop::Bytes(BYTES)),
            _ => None,
        };
        if kept.listing.stopped.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let stretch = (wanted.max(begin), end);
    if let Err(e) = client
        .read_stretch(&at, topic, stretch, &Select::all(), &mut visit)
        .await
    {
        kept.listing.failed.push(e.to_string());
    }
    Ok(kept.done())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_id_is_not_read_as_the_id_of_a_client() {
        let one = |id| {
            let lines = decoded(id);
            assert_eq!(lines.len(), 1, "{lines:?}");
            lines[0].clone()
        };
        let broker = one("7F00000100002A9F0000000000001234");
        assert_eq!(
            broker,
            "as an offset id: broker 127.0.0.1:10911, commit log offset 4660"
        );
    }
    use crate::remoting::CallError;

    fn message(n: i64, size: usize) -> Met {
        Met::Message(Box::new(Message {
            offset: n,
            stored_ms: n,
            size,
            ..Message::empty()
        }))
    }

    /// A search by time that meets so many messages of that size.
    fn met(bound: u64, messages: i64, size: usize) -> Listing {
        let mut kept = Kept::new(&Search::live("T")).unwrap();
        let _ = (0..messages).try_for_each(|n| kept.meet(message(n, size), i64::MAX, bound));
        kept.done()
    }

    #[test]
    fn going_on_shows_newer_messages_than_the_first_bound_did() {
        let last = |listing: &Listing| (listing.rows.len(), listing.rows.last().unwrap().offset);
        let first = met(2_000, 3_000, 10);
        assert_eq!((last(&first), first.scanned), ((2_000, 1_999), 2_000));
        assert_eq!((first.stopped, first.cut), (Some(Stop::Scanned(2_000)), None));
        let further = met(10_000, 3_000, 10);
        assert_eq!((last(&further), further.scanned), ((2_000, 2_999), 3_000));
        assert_eq!((further.stopped, further.cut), (None, Some(Stop::Rows(2_000))));
        // Neither is going on stopped by large ones.
        let large = met(10_000, 40, 1024 * 1024);
        assert_eq!((last(&large), large.scanned), ((16, 39), 40));
        assert_eq!((large.stopped, large.cut), (None, Some(Stop::Bytes(BYTES))));
        // A bound that the last message meets stopped nothing.
        assert_eq!(met(2_000, 2_000, 10).stopped, None);
    }

    #[test]
    fn what_a_broker_passes_over_counts_and_is_bounded() {
        let mut kept = Kept::new(&Search::live("T")).unwrap();
        assert!(kept.meet(Met::Passed(1_500), 10, 2_000).is_continue());
        assert!(kept.meet(message(5, 1), 10, 2_000).is_continue());
        assert!(kept.meet(Met::Passed(800), 10, 2_000).is_continue());
        // What is too new ends the search; it is not the bound that stopped it.
        assert!(kept.meet(message(11, 1), 10, 2_000).is_break());
        assert_eq!((kept.listing.scanned, kept.listing.stopped), (2_301, None));
        assert!(kept.meet(Met::Passed(1), 10, 2_000).is_break());
        assert_eq!(kept.listing.stopped, Some(Stop::Scanned(2_000)));
    }

    #[test]
    fn a_queue_that_is_not_followed_yet_stays_told() {
        let at = |addr: &str, queue| QueueAt {
            broker: Server::named("b", addr),
            queue,
        };
        let all = vec![at("x", 0), at("x", 1), at("y", 0)];
        let mut lost = Lost {
            queues: all.clone(),
            words: vec![(Some("x".into()), "x is away".into()), (None, "no route".into())],
        };
        // As many queues as there were, but two of them are new ones.
        lost.less(&[at("y", 0), at("y", 1), at("x", 0)]);
        assert_eq!(lost.words().collect::<Vec<_>>(), ["x is away", "no route"]);
        lost.less(&all);
        assert_eq!(lost.words().count(), 0);
    }

    #[test]
    fn only_a_brokers_answer_says_that_no_message_is_there() {
        let server = Server::named("broker-a:0", "10.0.0.11:10911");
        let call = |source| Error::Call {
            request: "VIEW_MESSAGE_BY_ID",
            server: server.clone(),
            source,
            changes: false,
        };
        let mut kept = Kept::new(&Search::live("T")).unwrap();
        kept.missed(
            &server,
            &call(CallError::Remote {
                addr: server.addr.clone(),
                code: 1,
                remark: "can not find message".into(),
            }),
        );
        assert_eq!((kept.listing.notes.len(), kept.listing.failed.len()), (1, 0));
        kept.missed(
            &server,
            &call(CallError::Closed {
                addr: "10.0.0.11:10911".into(),
            }),
        );
        assert_eq!((kept.listing.notes.len(), kept.listing.failed.len()), (1, 1));
        assert!(kept.listing.failed[0].contains("closed the connection"));
    }
}
