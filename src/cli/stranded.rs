//! Messages behind the read queues of their topics: no number of a group or a topic has them, so that they are told apart.

use std::collections::BTreeSet;

use super::output::Listing;
use super::session::Session;
use crate::client::BrokerAt;
use crate::client::snapshot::told_sum;
use crate::client::stranded::{Left, raise_read};

/// What is stranded for these groups (none named: for all) in a topic, or in all of them: warned of, and counted in the
/// summary of what is printed.
pub async fn tell(
    session: &Session,
    brokers: &[BrokerAt],
    groups: &[String],
    topic: Option<&str>,
    listing: Option<&mut Listing>,
) {
    let groups: BTreeSet<String> = groups.iter().cloned().collect();
    let (left, complete) = session.client.left_stranded(brokers, &groups, topic).await;
    if let Some(listing) = listing {
        let sum = told_sum(left.iter().map(Left::messages));
        let sum = (complete || sum > 0).then_some(sum);
        listing.summary.insert("stranded_messages".into(), sum.into());
    }
    let mut topics: BTreeSet<&str> = BTreeSet::new();
    for one in &left {
        session.warn(&format!("{}; they are counted nowhere else", one.text()));
        topics.insert(&one.topic);
    }
    for topic in topics {
        let of_topic = left.iter().filter(|one| one.topic == topic);
        if let Some(next) = raise_read(topic, of_topic.map(|l| (l.broker.as_str(), l.queues.as_slice()))) {
            session.warn(&format!("a broker refuses reads behind the read queues: {next}"));
        }
    }
}
