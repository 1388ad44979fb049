//! What the name servers route, compared as `rmq namesrv diff` compares it: a part at a time, so that ten thousand topics
//! are no burst of calls, and what differs again and again until it does not.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::Client;
use crate::client::admin::namesrv::{Difference, NameServerView, differences};
use crate::protocol::body::TopicRouteData;

/// Topics of one look: four calls a second for each name server, at a look every five.
const PART: usize = 20;

/// What was found so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Compared {
    /// What the name servers do not agree about, in the topics that were looked at.
    pub differences: Vec<Difference>,
    /// A hash of these routes by name server.
    pub hashes: BTreeMap<String, u32>,
    /// Topics that were looked at.
    pub topics: usize,
    /// Topics that there are.
    pub of: usize,
}

impl Compared {
    /// True when nothing is left to look at.
    pub fn is_whole(&self) -> bool {
        self.topics == self.of
    }

    /// What two name servers say differently: the thing, and what each says. A topic that one of them does not have at
    /// all is left out: the lists of names tell that.
    pub fn between<'a>(
        &'a self,
        a: &'a str,
        b: &'a str,
    ) -> impl Iterator<Item = (String, &'a str, &'a str)> + 'a {
        self.differences.iter().filter_map(move |difference| {
            let of = |addr: &str| {
                let said = difference.values.iter().find(|(who, _)| who == addr);
                said.map(|(_, said)| said.as_str())
            };
            let (a, b) = (of(a)?, of(b)?);
            let what = format!("{} {} {}", difference.kind, difference.name, difference.field);
            (a != b).then_some((what, a, b))
        })
    }
}

/// Routes as they were seen last.
#[derive(Debug, Default)]
pub struct Book {
    routes: BTreeMap<String, BTreeMap<String, TopicRouteData>>,
    /// When each topic was looked at, in looks.
    looked: BTreeMap<String, u64>,
    look: u64,
    differing: BTreeSet<String>,
}

impl Book {
    /// The topics to look at now: those that differ, those never seen, those seen longest ago.
    fn part(&self, topics: &BTreeSet<String>) -> Vec<String> {
        let mut all: Vec<&String> = topics.iter().collect();
        all.sort_by_key(|topic| {
            (
                !self.differing.contains(*topic),
                self.looked.get(*topic).copied().unwrap_or(0),
            )
        });
        // Where all differ, the others have their turn as well.
        let first = all.iter().take(PART / 2);
        let rest = all.iter().skip(PART / 2);
        let mut rest: Vec<&&String> = rest.collect();
        rest.sort_by_key(|topic| self.looked.get(**topic).copied().unwrap_or(0));
        first
            .chain(rest.into_iter().take(PART - PART / 2))
            .map(|topic| (*topic).clone())
            .collect()
    }

    /// Takes in one look at `part` of the topics, as each name server that answered has them.
    fn take(
        &mut self,
        topics: &BTreeSet<String>,
        part: &[String],
        answers: BTreeMap<String, BTreeMap<String, TopicRouteData>>,
    ) {
        self.look += 1;
        // One that answers anew has told nothing of the topics that the others were asked for before.
        if answers.keys().any(|addr| !self.routes.contains_key(addr)) {
            self.looked.clear();
        }
        // A name server that does not answer says nothing, and what it said is old.
        self.routes.retain(|addr, _| answers.contains_key(addr));
        for (addr, mut found) in answers {
            let known = self.routes.entry(addr).or_default();
            known.retain(|topic, _| topics.contains(topic));
            for topic in part {
                match found.remove(topic) {
                    Some(route) => known.insert(topic.clone(), route),
                    None => known.remove(topic),
                };
            }
        }
        self.looked.retain(|topic, _| topics.contains(topic));
        for topic in part {
            self.looked.insert(topic.clone(), self.look);
        }
    }

    /// What is known of the topics that every name server was asked for and has.
    fn compared(&mut self, topics: &BTreeSet<String>) -> Compared {
        let common = |topic: &String| self.routes.values().all(|routes| routes.contains_key(topic));
        let views: Vec<NameServerView> = (self.routes.iter())
            .map(|(addr, routes)| NameServerView {
                kv: Default::default(),
                addr: addr.clone(),
                brokers: BTreeMap::new(),
                routes: (routes.iter().filter(|(topic, _)| common(topic)))
                    .map(|(topic, route)| (topic.clone(), route.clone()))
                    .collect(),
            })
            .collect();
        let differences = differences(&views);
        self.differing = differences.iter().map(|d| d.name.clone()).collect();
        Compared {
            hashes: views.iter().map(|view| (view.addr.clone(), hash(view))).collect(),
            topics: self.looked.len(),
            of: topics.len(),
            differences,
        }
    }
}

/// A hash of the routes, in order: equal where nothing differs.
fn hash(view: &NameServerView) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for (topic, route) in &view.routes {
        let mut queues: Vec<String> = (route.queue_datas.iter())
            .map(|q| {
                format!(
                    "{} {} {} {}",
                    q.broker_name, q.read_queue_nums, q.write_queue_nums, q.perm
                )
            })
            .collect();
        queues.sort_unstable();
        let order = route.order_topic_conf.as_deref().unwrap_or("-");
        hasher.update(format!("{topic} {order} {}\n", queues.join(" ")).as_bytes());
    }
    hasher.finalize()
}

/// Looks at the next part, at every name server that answers.
pub async fn look(client: &Client, book: &tokio::sync::Mutex<Book>) -> Result<Compared, String> {
    let mut book = book.lock().await;
    let named = client
        .each(client.name_servers().to_vec(), |addr| async move {
            let names = client.look_topic_names(&addr, client.deadline()).await;
            (addr, names)
        })
        .await;
    let mut topics = BTreeSet::new();
    let (mut up, mut why) = (Vec::new(), None);
    for (addr, names) in named {
        match names {
            Ok(names) => {
                topics.extend(names);
                up.push(addr);
            }
            Err(e) => why = Some(super::refusal::short(&e)),
        }
    }
    if up.is_empty() {
        return Err(why.unwrap_or_else(|| "no name server is known".to_owned()));
    }
    let part = book.part(&topics);
    let asked = client
        .each(up, |addr| {
            let part = part.clone();
            async move {
                let routes = client.routes_at(&addr, part).await;
                routes.map(|routes| (addr, routes))
            }
        })
        .await;
    // One that fell silent in between is left out: its part of the answer would be half of one.
    let answers: BTreeMap<_, _> = asked.into_iter().flatten().collect();
    book.take(&topics, &part, answers);
    Ok(book.compared(&topics))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::body::QueueData;
    use crate::protocol::model::Perm;

    fn route(perm: i32, queues: i32) -> TopicRouteData {
        TopicRouteData {
            queue_datas: vec![QueueData {
                broker_name: "b".into(),
                perm: Perm(perm),
                read_queue_nums: queues,
                write_queue_nums: queues,
                ..QueueData::default()
            }],
            ..TopicRouteData::default()
        }
    }

    fn see(
        book: &mut Book,
        topics: &BTreeSet<String>,
        of_b: impl Fn(&str) -> Option<TopicRouteData>,
    ) -> Compared {
        let part = book.part(topics);
        let all = |of: &dyn Fn(&str) -> Option<TopicRouteData>| {
            let found = part.iter().filter_map(|t| Some((t.clone(), of(t)?)));
            found.collect::<BTreeMap<_, _>>()
        };
        let answers = BTreeMap::from([
            ("a".to_owned(), all(&|_| Some(route(6, 8)))),
            ("b".to_owned(), all(&of_b)),
        ]);
        book.take(topics, &part, answers);
        book.compared(topics)
    }

    #[test]
    fn a_permission_and_a_queue_count_are_differences_and_their_hashes_differ() {
        let topics: BTreeSet<String> = ["t", "u", "v"].map(str::to_owned).into();
        let mut book = Book::default();
        let found = see(&mut book, &topics, |topic| match topic {
            "t" => Some(route(4, 8)),
            "u" => Some(route(6, 4)),
            // It is not listed there: the lists of names tell that.
            _ => None,
        });
        let told: Vec<_> = found.between("a", "b").collect();
        assert_eq!(
            told,
            [
                ("topic t b".to_owned(), "8/8 RW-", "8/8 R--"),
                ("topic u b".to_owned(), "8/8 RW-", "4/4 RW-"),
            ]
        );
        assert!(found.is_whole());
        assert_ne!(found.hashes["a"], found.hashes["b"]);
        let alike = see(&mut book, &topics, |_| Some(route(6, 8)));
        assert_eq!(alike.differences, []);
        assert_eq!(alike.hashes["a"], alike.hashes["b"]);
    }

    #[test]
    fn a_name_server_that_is_back_is_compared_from_the_beginning() {
        let topics: BTreeSet<String> = (0..2 * PART).map(|i| format!("t{i:03}")).collect();
        let mut book = Book::default();
        let alike = |_: &str| Some(route(6, 8));
        see(&mut book, &topics, alike);
        assert!(see(&mut book, &topics, alike).is_whole());
        let part = book.part(&topics);
        let alone = part.iter().map(|t| (t.clone(), route(6, 8))).collect();
        book.take(&topics, &part, BTreeMap::from([("a".to_owned(), alone)]));
        assert!(!see(&mut book, &topics, alike).is_whole());
        assert!(see(&mut book, &topics, alike).is_whole());
    }

    #[test]
    fn a_look_is_bounded_and_all_topics_have_their_turn_also_when_many_differ() {
        let topics: BTreeSet<String> = (0..100).map(|i| format!("t{i:03}")).collect();
        let mut book = Book::default();
        let mut looks = 0;
        loop {
            assert_eq!(book.part(&topics).len(), PART);
            looks += 1;
            if see(&mut book, &topics, |_| Some(route(4, 8))).is_whole() {
                break;
            }
            assert!(looks < 20, "some topic is never looked at");
        }
        // What differs is looked at again first, so that what was between two registrations does not stay.
        book.differing = ["t099".to_owned()].into();
        assert_eq!(book.part(&topics)[0], "t099");
    }
}
