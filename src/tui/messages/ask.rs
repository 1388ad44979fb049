//! Questions of the screen, answered with the functions that the commands use. Nothing here commits or registers.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::search::{Answer, BYTES, Listing, Mark, Mode, PAGE, Question, ROWS, Search, Sieve, Stop};
use crate::client::find::Name;
use crate::client::follow::{Follow, Followed};
use crate::client::ordered::Pace;
use crate::client::stretch::{From, Select, picked};
use crate::client::time::{Zone, now_ms};
use crate::client::{Client, Message};
use crate::protocol::message_id::{UniqueKey, parse_offset_id};

/// Calls of one broker a second that a search makes; the polling of the console has the rest of its budget.
const CALLS: u32 = 15;
/// Pause between two pictures of a search that goes on.
const TELL: Duration = Duration::from_millis(200);
/// Messages that a tail begins with, over all queues.
const BEGIN: i64 = 200;
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

/// Messages as they are kept: the bounds are those of the console's memory.
struct Kept {
    rows: VecDeque<Arc<Message>>,
    bytes: usize,
    listing: Listing,
    sieve: Option<Sieve>,
}

impl Kept {
    fn new(search: &Search) -> Result<Self, String> {
        Ok(Self {
            rows: VecDeque::new(),
            bytes: 0,
            listing: Listing::default(),
            sieve: Sieve::parse(&search.keep).transpose()?,
        })
    }

    fn weight(message: &Message) -> usize {
        message.size.max(message.body.len())
    }

    fn push(&mut self, message: Message) {
        if self.sieve.as_ref().is_none_or(|sieve| sieve.passes(&message)) {
            self.bytes += Self::weight(&message);
            self.rows.push_back(Arc::new(message));
        }
    }

    fn stop(&self) -> Option<Stop> {
        if self.rows.len() >= ROWS {
            Some(Stop::Rows(ROWS))
        } else if self.bytes >= BYTES {
            Some(Stop::Bytes(BYTES))
        } else {
            None
        }
    }

    /// Takes the oldest away until the bounds hold.
    fn trim(&mut self) {
        while (self.rows.len() > ROWS || self.bytes > BYTES)
            && let Some(oldest) = self.rows.pop_front()
        {
            self.bytes -= Self::weight(&oldest);
            self.listing.stopped = Some(Stop::Rows(self.rows.len()));
        }
    }

    fn picture(&self) -> Listing {
        Listing {
            rows: self.rows.iter().cloned().collect(),
            ..self.listing.clone()
        }
    }

    fn done(mut self) -> Listing {
        self.listing.over = true;
        self.picture()
    }
}

fn no_route(topic: &str) -> String {
    format!("topic {topic} has no route: it does not exist, or its brokers are away")
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
    let pace = Pace::per_second(CALLS);
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
            Err(e) => kept.listing.failed.push(e.to_string()),
        }
    }
    kept.listing.of = Some(there);
    let followed = Followed {
        topic: topic.to_owned(),
        broker: None,
        queue: None,
        select: Select::all(),
        refresh: REFRESH,
    };
    let mut follow = Follow::new(Arc::clone(&client), followed, Box::new(|_| true), begins);
    tell(kept.picture());
    let mut told = Instant::now();
    let mut news = false;
    loop {
        for message in follow.due(ROWS) {
            kept.push(message);
            news = true;
        }
        kept.trim();
        for notice in follow.notices() {
            kept.listing.notes = vec![notice];
            news = true;
        }
        kept.listing.scanned = follow.read();
        kept.listing.of = Some(there.max(i64::try_from(follow.read()).unwrap_or(i64::MAX)));
        let failed: Vec<String> = follow
            .silent()
            .iter()
            .map(|(who, why)| format!("{who}: {why}"))
            .collect();
        if failed != kept.listing.failed && !follow.silent().is_empty() {
            kept.listing.failed = failed;
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
    kept.listing.of = Some(stretches.iter().map(|(_, (from, to))| to - from).sum());
    tell(kept.picture());
    let mut told = Instant::now();
    let mut visit = |message: Message| {
        if message.stored_ms > until {
            return ControlFlow::Break(());
        }
        kept.listing.scanned += 1;
        kept.push(message);
        kept.listing.stopped = kept
            .stop()
            .or((kept.listing.scanned >= search.bound).then_some(Stop::Scanned(search.bound)));
        if told.elapsed() >= TELL {
            told = Instant::now();
            tell(kept.picture());
        }
        if kept.listing.stopped.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let failed = client
        .read_ordered(topic, stretches, &select, &pace, &mut visit)
        .await;
    kept.listing.failed.extend(failed.iter().map(ToString::to_string));
    if kept
        .listing
        .of
        .is_some_and(|of| i64::try_from(kept.listing.scanned).is_ok_and(|n| n >= of))
    {
        // The bound was met by the last message: nothing was left out.
        kept.listing.stopped = kept.listing.stopped.filter(|s| !matches!(s, Stop::Scanned(_)));
    }
    Ok(kept.done())
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
    kept.trim();
    Ok(kept.done())
}

/// What an id says by itself, without asking anyone.
pub fn decoded(id: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if let Ok(key) = UniqueKey::parse(id) {
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
            // Nearly every unique key reads as an address that no broker has; only a broker's answer says something.
            Err(e) => {
                kept.listing
                    .notes
                    .push(format!("{} has no message there: {}", spot.server, e.reason()))
            }
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
                if !kept.rows.iter().any(|m| Mark::id(m) == Mark::id(&message)) {
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
    kept.listing.of = Some((end - wanted.max(begin)).max(0));
    let mut visit = |message: Message| {
        kept.listing.scanned += 1;
        kept.push(message);
        kept.listing.stopped = kept.stop();
        if kept.rows.len() >= PAGE {
            kept.listing.stopped = Some(Stop::Rows(PAGE));
        }
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
