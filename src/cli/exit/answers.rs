//! What each response code of a server means to an operator: read in the sources of 5.3.3.

use super::{NOT_FOUND, REFUSED, REJECTED, UNSUPPORTED};
use crate::protocol::codes;

/// One code, explained.
pub struct Meaning {
    /// Exit code.
    pub exit: u8,
    /// What the server did; it follows the server's name.
    pub what: &'static str,
    /// Why this happens.
    pub why: &'static str,
    /// One next command. BROKER stands for the server's address.
    pub next: &'static str,
}

const fn rejected(why: &'static str, next: &'static str) -> Meaning {
    Meaning {
        exit: REJECTED,
        what: "rejected the request",
        why,
        next,
    }
}

const fn not_found(what: &'static str, why: &'static str, next: &'static str) -> Meaning {
    Meaning {
        exit: NOT_FOUND,
        what,
        why,
        next,
    }
}

/// The meaning of an answer. Few codes mean another thing by the remark or the request.
pub fn meaning(code: i32, remark: &str, request: &str) -> Meaning {
    use codes as c;
    match code {
        // QueryMessageProcessor has no code of its own for it.
        c::SYSTEM_ERROR
            if remark
                .trim_start()
                .starts_with("can not find message by the offset") =>
        {
            not_found(
                "has no message there",
                "No record begins at that position: its file was deleted after the retention time, or the id is of another cluster.",
                "rmq message decode-id ID",
            )
        }
        c::SYSTEM_ERROR => rejected(
            "Servers answer this code to every failure that has no code of its own; the remark is the reason, and the \
             server's own log has more.",
            "rmq doctor",
        ),
        c::SYSTEM_BUSY => Meaning {
            exit: REJECTED,
            what: "is too busy",
            why: "It sheds load; a later attempt may work.",
            next: "rmq broker describe BROKER",
        },
        c::REQUEST_CODE_NOT_SUPPORTED => Meaning {
            exit: UNSUPPORTED,
            what: "does not support this request",
            why: "Its version or role lacks it.",
            next: "rmq broker list -o wide",
        },
        c::TRANSACTION_FAILED => rejected(
            "The transaction was not committed; servers before 5.0 answer this.",
            "rmq doctor --checks TR1",
        ),
        c::FLUSH_DISK_TIMEOUT => rejected(
            "The message is stored, but was not on the disk when syncFlushTimeout was over.",
            "rmq broker describe BROKER",
        ),
        c::SLAVE_NOT_AVAILABLE => rejected(
            "The message is stored on the master alone: no slave is connected, or none is close enough behind.",
            "rmq broker ha BROKER",
        ),
        c::FLUSH_SLAVE_TIMEOUT => rejected(
            "The message is stored on the master, but no slave had it when syncFlushTimeout was over.",
            "rmq broker ha BROKER",
        ),
        c::MESSAGE_ILLEGAL => rejected(
            "The message is too large, its properties or its topic's name are too long, its time of delivery is too far away, \
             or the handle of a pop message is not of this queue; the remark tells which.",
            "rmq broker get-config BROKER maxMessageSize timerMaxDelaySec",
        ),
        c::SERVICE_NOT_AVAILABLE => rejected(
            "Its store takes no writes: it is a slave, it starts or stops, or its disk is full.",
            "rmq broker describe BROKER",
        ),
        c::VERSION_NOT_SUPPORTED => Meaning {
            exit: UNSUPPORTED,
            what: "does not support this request",
            why: "It is older than the request, or wants an older one.",
            next: "rmq broker list -o wide",
        },
        c::NO_PERMISSION => Meaning {
            exit: REFUSED,
            what: "refused the request",
            why: "Servers answer this code for missing rights and for values they guard; the remark tells which.",
            next: "rmq acl list",
        },
        c::TOPIC_NOT_EXIST => not_found(
            "knows no such topic",
            "A broker has no settings of the topic, or a name server no route to it: it was deleted, is on other brokers, \
             or its brokers are not registered there. Upper and lower case count.",
            "rmq topic list --all",
        ),
        c::TOPIC_EXIST_ALREADY => rejected(
            "It has a topic of this name; servers before 5.0 answer this.",
            "rmq topic list --all",
        ),
        c::PULL_NOT_FOUND => rejected(
            "The queue has no message at that offset yet.",
            "rmq topic status TOPIC",
        ),
        c::PULL_RETRY_IMMEDIATELY => rejected(
            "The messages there do not match the filter, or the broker just moved on; the next offset may have one.",
            "rmq message list --topic TOPIC",
        ),
        c::PULL_OFFSET_MOVED => rejected(
            "The offset is outside of what the queue holds: before its first message that is kept, or after its last.",
            "rmq topic status TOPIC",
        ),
        c::QUERY_NOT_FOUND => match request {
            "GET_KV_CONFIG" | "GET_KVLIST_BY_NAMESPACE" => not_found(
                "found nothing",
                "The name server has no such namespace or key, or was not there when it was written.",
                "rmq kv list",
            ),
            "QUERY_MESSAGE" => not_found(
                "found nothing",
                "Its index has no message with this key in that time.",
                "rmq message list --topic TOPIC --from -1h",
            ),
            _ => not_found(
                "found nothing",
                "The group committed no offset in that queue, or the broker keeps no such key.",
                "rmq group list",
            ),
        },
        c::SUBSCRIPTION_PARSE_FAILED => rejected(
            "The filter is neither a list of tags such as 'A || B' nor an SQL expression that parses, or \
             enablePropertyFilter is off.",
            "rmq broker get-config BROKER enablePropertyFilter",
        ),
        c::SUBSCRIPTION_NOT_EXIST => rejected(
            "No client of the group told this broker of a subscription to the topic.",
            "rmq group clients GROUP",
        ),
        c::SUBSCRIPTION_NOT_LATEST => rejected(
            "A client of the group changed its subscription, and its heartbeat has not reached the broker.",
            "rmq group check GROUP",
        ),
        c::SUBSCRIPTION_GROUP_NOT_EXIST => not_found(
            "knows no such consumer group",
            "The broker has no settings of the group: it was deleted, is on other brokers, or never had a client while \
             autoCreateSubscriptionGroup was on. Upper and lower case count.",
            "rmq group list",
        ),
        c::FILTER_DATA_NOT_EXIST | c::FILTER_DATA_NOT_LATEST => rejected(
            "The broker keeps no compiled SQL filter of the group as new as its subscription; the next heartbeat of a client \
             brings it.",
            "rmq group check GROUP",
        ),
        c::INVALID_PARAMETER => rejected(
            "A name, number or attribute is outside of what the server takes; the remark tells which.",
            "rmq broker get-config BROKER",
        ),
        c::CONSUMER_NOT_ONLINE => not_found(
            "has no client of this group online",
            "No consumer of the group is connected to this broker; clients of a group may be connected to others alone.",
            "rmq consumer clients",
        ),
        c::CONSUME_MSG_TIMEOUT => rejected(
            "The broker passed the request on to the client, which did not answer in time.",
            "rmq consumer clients",
        ),
        c::NO_MESSAGE => not_found(
            "found no message",
            "The offset is outside of what the queue holds: the message is gone, or was never there.",
            "rmq topic status TOPIC",
        ),
        c::POLLING_FULL => rejected(
            "As many pop requests wait for messages as the broker allows: popPollingSize and maxPopPollingSize.",
            "rmq broker get-config BROKER popPollingSize maxPopPollingSize",
        ),
        c::POLLING_TIMEOUT => rejected(
            "No message came while the request waited.",
            "rmq topic status TOPIC",
        ),
        c::BROKER_NOT_EXIST => not_found(
            "has no such broker",
            "The container runs no broker of this cluster, name and number.",
            "rmq broker list",
        ),
        c::FLOW_CONTROL => rejected(
            "More requests came than the server takes at once; a later attempt may work.",
            "rmq broker describe BROKER",
        ),
        c::NOT_LEADER_FOR_QUEUE => rejected(
            "The queue of the static topic is led by another broker now.",
            "rmq static-topic get TOPIC",
        ),
        c::ILLEGAL_OPERATION => rejected(
            "It is too late for it, as for the end of a transaction that was settled, or the handle of the message is not \
             one of this broker.",
            "rmq message decode-id ID",
        ),
        c::GO_AWAY => rejected(
            "The server shuts down and wants its clients to connect anew.",
            "rmq broker list",
        ),
        code => controllers(code).unwrap_or(rejected(
            "The code is of a server newer than this rmq, or of another make; the remark is the reason.",
            "rmq broker list -o wide",
        )),
    }
}

/// The codes of controllers and of access control.
fn controllers(code: i32) -> Option<Meaning> {
    use codes as c;
    const STATE: &str = "rmq controller sync-state";
    const GROUP: &str = "rmq controller get";
    Some(match code {
        c::CONTROLLER_FENCED_MASTER_EPOCH => rejected(
            "Another master was elected since: the request is of an old one.",
            STATE,
        ),
        c::CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH => rejected(
            "The set of replicas in sync changed since the request was made.",
            STATE,
        ),
        c::CONTROLLER_INVALID_MASTER => rejected("The broker is not the master of its set.", STATE),
        c::CONTROLLER_INVALID_REPLICAS => {
            rejected("A replica that is named is not of that broker set.", STATE)
        }
        c::CONTROLLER_MASTER_NOT_AVAILABLE => rejected(
            "The broker set has no master: the old one is gone, and no replica in sync is alive.",
            STATE,
        ),
        c::CONTROLLER_INVALID_REQUEST => rejected("The controller could make nothing of the request.", GROUP),
        c::CONTROLLER_BROKER_NOT_ALIVE => {
            rejected("The replica sends no heartbeats to the controller.", STATE)
        }
        c::CONTROLLER_NOT_LEADER => rejected(
            "Another controller of the group leads, or none does while they elect one.",
            GROUP,
        ),
        c::CONTROLLER_BROKER_METADATA_NOT_EXIST => not_found(
            "knows no such broker set",
            "No broker of this name ever registered with the controllers, or they were told to forget it.",
            STATE,
        ),
        c::CONTROLLER_INVALID_CLEAN_BROKER_METADATA => rejected(
            "Controllers forget only replicas that they know and that are not alive, unless --living asks for those too.",
            STATE,
        ),
        c::CONTROLLER_BROKER_NEED_TO_BE_REGISTERED => {
            rejected("The replica has not registered with the controllers.", STATE)
        }
        c::CONTROLLER_MASTER_STILL_EXIST => rejected("The broker set has a master that is alive.", STATE),
        c::CONTROLLER_ELECT_MASTER_FAILED => rejected(
            "No replica could become master: none that is in sync is alive, and enableElectUncleanMaster is off.",
            STATE,
        ),
        c::CONTROLLER_ALTER_SYNC_STATE_SET_FAILED => rejected(
            "The set of replicas in sync could not become what was asked for.",
            STATE,
        ),
        c::CONTROLLER_BROKER_ID_INVALID => rejected(
            "The number is another replica's, or not the one that the controllers gave.",
            STATE,
        ),
        c::CONTROLLER_JRAFT_INTERNAL_ERROR => rejected(
            "The log that the controllers share failed; the log of the leader tells why.",
            GROUP,
        ),
        c::CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS => {
            rejected("The controller has had no heartbeat of the broker.", STATE)
        }
        c::USER_NOT_EXIST => not_found(
            "knows no such user",
            "Each broker keeps its own users; it was deleted, or is on other brokers.",
            "rmq user list",
        ),
        c::POLICY_NOT_EXIST => not_found(
            "knows no such rule",
            "Each broker keeps its own rules; it was deleted, or is on other brokers.",
            "rmq acl list",
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Failure, call};
    use super::*;
    use crate::cli::examples::words;
    use crate::client::CallError;

    fn answered(code: i32, remark: &str, request: &str) -> Failure {
        let source = CallError::Remote {
            addr: "127.0.0.1:1".into(),
            code,
            remark: remark.into(),
        };
        call(request, "broker-a 127.0.0.1:1", &source)
    }

    /// Section 3 of the specification: every error names why it happens and one next command, and that one is a command.
    #[test]
    fn every_response_code_has_its_why_and_a_next_command() {
        let failures = codes::ALL.iter().filter(|code| **code != codes::SUCCESS);
        let mut seen = 0;
        for code in failures.copied().chain([-7, 4242]) {
            seen += 1;
            for request in ["GET_KV_CONFIG", "QUERY_MESSAGE", "VIEW_MESSAGE_BY_ID"] {
                let failure = answered(code, "can not find message by the offset, 7", request);
                let why = failure.why.unwrap_or_default();
                assert!(why.ends_with('.') && why.len() > 20, "{code}: {why}");
                let next = failure.hint.unwrap_or_default();
                let parsed = crate::cli::command().try_get_matches_from(words(&next));
                assert!(parsed.is_ok(), "{code}: {next}: {}", parsed.unwrap_err());
                assert!(!next.contains("BROKER"), "{code}: {next}");
            }
        }
        assert!(seen >= 55, "{seen}");
    }

    /// The codes that section 3 wants a sentence of their own for.
    #[test]
    fn codes_say_what_they_mean() {
        for (code, request, exit, part, next) in [
            (1, "VIEW", 6, "the remark is the reason", "rmq doctor"),
            (
                2,
                "SEND_MESSAGE",
                6,
                "later attempt",
                "rmq broker describe 127.0.0.1:1",
            ),
            (
                3,
                "GET_PARENT_TOPIC_INFO",
                12,
                "version or role",
                "rmq broker list -o wide",
            ),
            (
                16,
                "UPDATE_BROKER_CONFIG",
                5,
                "the remark tells which",
                "rmq acl list",
            ),
            (
                17,
                "GET_TOPIC_CONFIG",
                4,
                "no route to it",
                "rmq topic list --all",
            ),
            (22, "GET_KV_CONFIG", 4, "namespace or key", "rmq kv list"),
            (
                22,
                "QUERY_CONSUMER_OFFSET",
                4,
                "committed no offset",
                "rmq group list",
            ),
            (
                26,
                "GET_SUBSCRIPTIONGROUP_CONFIG",
                4,
                "autoCreateSubscriptionGroup",
                "rmq group list",
            ),
            (
                206,
                "GET_CONSUMER_CONNECTION_LIST",
                4,
                "No consumer of the group",
                "rmq consumer clients",
            ),
            (
                208,
                "ACK_MESSAGE",
                4,
                "outside of what the queue holds",
                "rmq topic status TOPIC",
            ),
            (
                211,
                "REMOVE_BROKER",
                4,
                "container runs no broker",
                "rmq broker list",
            ),
            (
                2007,
                "CONTROLLER_ELECT_MASTER",
                6,
                "Another controller",
                "rmq controller get",
            ),
        ] {
            let failure = answered(code, "as it is", request);
            assert_eq!(failure.exit, exit, "{code}");
            assert!(
                failure.why.as_deref().unwrap_or_default().contains(part),
                "{code}: {failure:?}"
            );
            assert_eq!(failure.hint.as_deref(), Some(next), "{code}");
        }
        let gone = answered(1, "can not find message by the offset, 7", "VIEW_MESSAGE_BY_ID");
        assert_eq!(
            (gone.exit, gone.hint.as_deref()),
            (4, Some("rmq message decode-id ID"))
        );
    }
}
