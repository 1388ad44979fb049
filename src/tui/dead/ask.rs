//! Questions of the dead-letter screen, answered with the functions that `rmq dlq` uses.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::client::admin::topic::masters;
use crate::client::dlq::topic_of;
use crate::client::letters::{Ask, Letters};
use crate::client::ordered::Pace;
use crate::client::resent::{self, State, Step, entry};
use crate::client::stretch::{From, Select, picked};
use crate::client::time::now_ms;
use crate::client::{Client, Message};
use crate::tui::messages::newest::Newest;
use crate::tui::messages::search::ROWS;

/// Calls of one broker a second; the polling of the console has the rest of its budget.
const CALLS: u32 = 15;
/// A day, ms.
const DAY_MS: i64 = 86_400_000;

/// What the screen asks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// Groups with a dead-letter topic, and what is in each.
    Groups,
    /// The letters of one group.
    Letters(String),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Groups, so far.
    Groups(Groups),
    /// Letters of one group.
    Letters(Box<Found>),
}

/// Groups with a dead-letter topic.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Groups {
    /// In the order of their names; `None` for one that was not asked yet.
    pub groups: BTreeMap<String, Option<Letters>>,
}

impl Groups {
    /// Groups whose brokers were asked.
    pub fn asked(&self) -> usize {
        self.groups.values().filter(|l| l.is_some()).count()
    }
}

/// What became of a letter that was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resent {
    /// A broker has the copy.
    Sent,
    /// A broker refused it.
    Failed,
    /// It went out and no answer is known.
    Unknown,
}

/// Letters of one group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Oldest first, the newest ones when there are more than may be kept.
    pub rows: Vec<Arc<Message>>,
    /// Letters that there are, as far as offsets tell.
    pub of: i64,
    /// What was sent again, by [`entry`].
    pub resent: BTreeMap<String, Resent>,
    /// Brokers that could not be read, with the reason.
    pub failed: Vec<String>,
}

/// Answers a question. `state_dir` is where `rmq dlq resend` remembers what it sent.
pub async fn answer(
    client: Arc<Client>,
    question: Question,
    state_dir: Option<PathBuf>,
    tell: impl Fn(Answer) + Send + Sync,
) -> Result<Answer, String> {
    match question {
        Question::Groups => groups(&client, &tell).await,
        Question::Letters(group) => letters(&client, &group, state_dir).await,
    }
}

async fn groups(client: &Client, tell: &(impl Fn(Answer) + Sync)) -> Result<Answer, String> {
    let names = client.groups_with_letters().await.map_err(|e| e.reason())?;
    let mut all = Groups {
        groups: names.iter().map(|name| (name.clone(), None)).collect(),
    };
    let pace = Pace::per_second(CALLS);
    let ask = Ask {
        since_ms: Some(now_ms() - DAY_MS),
        sources: true,
        pace: Some(&pace),
        ..Ask::default()
    };
    for group in names {
        tell(Answer::Groups(all.clone()));
        // What failed is in the letters themselves.
        let (letters, _) = client.letters(&group, ask).await;
        all.groups.insert(group, Some(letters));
    }
    Ok(Answer::Groups(all))
}

async fn letters(client: &Client, group: &str, state_dir: Option<PathBuf>) -> Result<Answer, String> {
    let topic = topic_of(group);
    let route = client.route(&topic).await.map_err(|e| e.reason())?;
    let Some(route) = route else {
        return Ok(Answer::Letters(Box::default()));
    };
    if route.queue_datas.iter().any(|q| !q.perm.readable()) {
        return Err(format!(
            "{topic} cannot be read: it has to be made readable first"
        ));
    }
    let queues = picked(&route, None, None);
    let each = i64::try_from(ROWS / queues.len().max(1)).unwrap_or(1).max(1);
    let pace = Pace::per_second(CALLS);
    let (mut found, mut stretches) = (Found::default(), Vec::new());
    for stretch in client.stretches(&topic, queues, From::Earliest, &pace).await {
        match stretch {
            Ok((at, (begin, end))) => {
                found.of = found.of.saturating_add(end.saturating_sub(begin));
                stretches.push((at, (begin.max(end.saturating_sub(each)), end)));
            }
            Err(e) => found.failed.push(e.to_string()),
        }
    }
    // The oldest come first, and are the ones to go.
    let mut newest = Newest::default();
    let mut visit = |message: Message| {
        newest.push(message);
        ControlFlow::Continue(())
    };
    let failed = client
        .read_ordered(&topic, stretches, &Select::all(), &pace, &mut visit)
        .await;
    found.failed.extend(failed.iter().map(ToString::to_string));
    found.rows = newest.into_rows();
    let brokers = masters(&route);
    if let (Some(dir), Some(cluster)) = (state_dir, resent::cluster_of(&brokers)) {
        let file = resent::file(&dir, cluster, group);
        let entries: Vec<String> = found.rows.iter().map(|m| entry(m)).collect();
        let read = tokio::task::spawn_blocking(move || remembered(&file, entries)).await;
        match read {
            Ok(Ok(resent)) => found.resent = resent,
            Ok(Err(e)) => found.failed.push(e.to_string()),
            Err(_) => found.failed.push("what was sent again could not be read".into()),
        }
    }
    Ok(Answer::Letters(Box::new(found)))
}

/// What the state file says of these letters.
fn remembered(
    file: &std::path::Path,
    entries: Vec<String>,
) -> Result<BTreeMap<String, Resent>, resent::Error> {
    let state = State::read(file)?;
    Ok(entries
        .into_iter()
        .filter_map(|entry| {
            let resent = match state.step(&entry)? {
                Step::Sent => Resent::Sent,
                Step::Failed => Resent::Failed,
                Step::Sending { .. } => Resent::Unknown,
            };
            Some((entry, resent))
        })
        .collect())
}
