//! Which client gets which queue: the strategies of Java's clients, without asking anybody.

use std::collections::BTreeMap;

use crate::protocol::model::MessageQueue;

/// Places on the ring for each client, as `AllocateMessageQueueConsistentHash` has them.
const VIRTUAL_NODES: usize = 10;

/// How queues are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// A run of queues each: `AllocateMessageQueueAveragely`, what clients use unless told otherwise.
    Average,
    /// In turn: `AllocateMessageQueueAveragelyByCircle`.
    Circle,
    /// By a hash ring: `AllocateMessageQueueConsistentHash`.
    Hash,
}

/// The queues of each client. Both lists are taken in their sorted order, as clients do before they share.
pub fn allocate(
    queues: &[MessageQueue],
    clients: &[String],
    strategy: Strategy,
) -> BTreeMap<String, Vec<MessageQueue>> {
    let mut queues = queues.to_vec();
    // Java compares topic, broker name, queue number.
    queues
        .sort_by(|a, b| (&a.topic, &a.broker_name, a.queue_id).cmp(&(&b.topic, &b.broker_name, b.queue_id)));
    let mut clients = clients.to_vec();
    clients.sort();
    clients.dedup();
    let mut shares: BTreeMap<String, Vec<MessageQueue>> = clients
        .iter()
        .map(|client| (client.clone(), Vec::new()))
        .collect();
    if clients.is_empty() {
        return shares;
    }
    let mut give = |client: &String, queue: &MessageQueue| {
        shares.entry(client.clone()).or_default().push(queue.clone());
    };
    match strategy {
        Strategy::Average => {
            let (each, more) = (queues.len() / clients.len(), queues.len() % clients.len());
            let mut rest = queues.iter();
            for (i, client) in clients.iter().enumerate() {
                for queue in rest.by_ref().take(each + usize::from(i < more)) {
                    give(client, queue);
                }
            }
        }
        Strategy::Circle => {
            for (i, queue) in queues.iter().enumerate() {
                give(&clients[i % clients.len()], queue);
            }
        }
        Strategy::Hash => {
            let mut ring = BTreeMap::new();
            for client in &clients {
                for i in 0..VIRTUAL_NODES {
                    ring.insert(place(&format!("{client}-{i}")), client);
                }
            }
            for queue in &queues {
                let at = place(&format!(
                    "MessageQueue [topic={}, brokerName={}, queueId={}]",
                    queue.topic, queue.broker_name, queue.queue_id
                ));
                if let Some((_, client)) = ring.range(at..).next().or_else(|| ring.iter().next()) {
                    give(client, queue);
                }
            }
        }
    }
    shares
}

/// First four bytes of the MD5, big endian.
fn place(key: &str) -> u32 {
    let digest = md5(key.as_bytes());
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

/// MD5 (RFC 1321): for places on Java's ring only, never for a secret.
fn md5(data: &[u8]) -> [u8; 16] {
    const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let sines: Vec<u32> = (1..=64u32)
        .map(|i| (f64::from(i).sin().abs() * 4_294_967_296.0) as u32)
        .collect();
    let mut padded = data.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((data.len() as u64).wrapping_mul(8).to_le_bytes());
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        let words: Vec<u32> = block
            .chunks_exact(4)
            .map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
            .collect();
        let [mut a, mut b, mut c, mut d] = state;
        for i in 0..64 {
            let (mix, word) = match i / 16 {
                0 => ((b & c) | (!b & d), i),
                1 => ((d & b) | (!d & c), (5 * i + 1) % 16),
                2 => (b ^ c ^ d, (3 * i + 5) % 16),
                _ => (c ^ (b | !d), (7 * i) % 16),
            };
            let sum = a
                .wrapping_add(mix)
                .wrapping_add(sines[i])
                .wrapping_add(words[word]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
        }
        for (total, part) in state.iter_mut().zip([a, b, c, d]) {
            *total = total.wrapping_add(part);
        }
    }
    let mut digest = [0; 16];
    for (out, word) in digest.chunks_exact_mut(4).zip(state) {
        out.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues() -> Vec<MessageQueue> {
        ["broker-b", "broker-a"]
            .into_iter()
            .flat_map(|broker| {
                (0..8).map(move |queue_id| MessageQueue {
                    topic: "OrderEvents".into(),
                    broker_name: broker.into(),
                    queue_id,
                })
            })
            .collect()
    }

    fn clients() -> Vec<String> {
        ["10.0.0.3", "10.0.0.1", "10.0.0.2"].map(str::to_owned).into()
    }

    #[test]
    fn md5_has_the_digests_of_the_rfc() {
        let hex = |text: &str| {
            md5(text.as_bytes())
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect::<String>()
        };
        assert_eq!(hex(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        assert_eq!(
            hex("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a"
        );
    }

    #[test]
    fn the_average_gives_runs_and_the_first_clients_one_more() {
        // 6, 5, 5 as mqadmin's allocateMQ printed for the same three clients.
        let shares = allocate(&queues(), &clients(), Strategy::Average);
        let sizes: Vec<usize> = shares.values().map(Vec::len).collect();
        assert_eq!(sizes, [6, 5, 5]);
        let first: Vec<i32> = shares["10.0.0.1"].iter().map(|q| q.queue_id).collect();
        assert_eq!(first, [0, 1, 2, 3, 4, 5]);
        assert!(shares["10.0.0.1"].iter().all(|q| q.broker_name == "broker-a"));
    }

    #[test]
    fn every_strategy_gives_each_queue_to_one_client() {
        for strategy in [Strategy::Average, Strategy::Circle, Strategy::Hash] {
            let shares = allocate(&queues(), &clients(), strategy);
            let mut all: Vec<MessageQueue> = shares.into_values().flatten().collect();
            all.sort();
            let mut expected = queues();
            expected.sort();
            assert_eq!(all, expected, "{strategy:?}");
        }
        let circle = allocate(&queues(), &clients(), Strategy::Circle);
        let second: Vec<i32> = circle["10.0.0.2"].iter().map(|q| q.queue_id).collect();
        assert_eq!(second, [1, 4, 7, 2, 5]);
        assert_eq!(allocate(&queues(), &[], Strategy::Hash).len(), 0);
    }
}
