//! Response codes (Java's `ResponseCode` and `RemotingSysResponseCode`).

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: i32 = $value;)*

        /// Every code that is known.
        pub const ALL: &[i32] = &[$($value),*];

        /// Java's name for a response code.
        pub fn name(code: i32) -> Option<&'static str> {
            match code {
                $($value => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

codes! {
    /// Done.
    SUCCESS = 0;
    /// Generic failure; the remark explains.
    SYSTEM_ERROR = 1;
    /// Flow control; clients back off.
    SYSTEM_BUSY = 2;
    /// The server has no handler for the code.
    REQUEST_CODE_NOT_SUPPORTED = 3;
    /// Unused by 5.x.
    TRANSACTION_FAILED = 4;
    /// Stored; the flush did not finish in time.
    FLUSH_DISK_TIMEOUT = 10;
    /// Stored; no slave.
    SLAVE_NOT_AVAILABLE = 11;
    /// Stored; the slave was too slow.
    FLUSH_SLAVE_TIMEOUT = 12;
    /// Size limits, bad timer, batch to retry.
    MESSAGE_ILLEGAL = 13;
    /// Store shut down, slave role, disk full.
    SERVICE_NOT_AVAILABLE = 14;
    /// Unused by 5.x.
    VERSION_NOT_SUPPORTED = 15;
    /// Permission bits, forbidden topics, guarded config keys.
    NO_PERMISSION = 16;
    /// No such topic, or no route.
    TOPIC_NOT_EXIST = 17;
    /// Unused by 5.x.
    TOPIC_EXIST_ALREADY = 18;
    /// No new message.
    PULL_NOT_FOUND = 19;
    /// Filtered out; go on at the next offset.
    PULL_RETRY_IMMEDIATELY = 20;
    /// Illegal offset; go on at the next offset.
    PULL_OFFSET_MOVED = 21;
    /// No offset stored, no message for the key, no KV entry.
    QUERY_NOT_FOUND = 22;
    /// The subscription text does not parse.
    SUBSCRIPTION_PARSE_FAILED = 23;
    /// Pull before heartbeat.
    SUBSCRIPTION_NOT_EXIST = 24;
    /// The request's subscription is newer than the heartbeat's.
    SUBSCRIPTION_NOT_LATEST = 25;
    /// No such consumer group.
    SUBSCRIPTION_GROUP_NOT_EXIST = 26;
    /// SQL filter data missing.
    FILTER_DATA_NOT_EXIST = 27;
    /// SQL filter data old.
    FILTER_DATA_NOT_LATEST = 28;
    /// Bad topic name, queue id out of range.
    INVALID_PARAMETER = 29;
    /// No live client of the group.
    CONSUMER_NOT_ONLINE = 206;
    /// A forwarded call timed out.
    CONSUME_MSG_TIMEOUT = 207;
    /// Ack outside the queue.
    NO_MESSAGE = 208;
    /// Too many parked polls.
    POLLING_FULL = 209;
    /// A parked poll ran out.
    POLLING_TIMEOUT = 210;
    /// A container does not run the broker.
    BROKER_NOT_EXIST = 211;
    /// Client-side flow control.
    FLOW_CONTROL = 215;
    /// Static topic led by another broker.
    NOT_LEADER_FOR_QUEUE = 501;
    /// Late commit, bad recall handle.
    ILLEGAL_OPERATION = 604;
    /// The peer is shutting down.
    GO_AWAY = 1500;
    /// The master's epoch is old.
    CONTROLLER_FENCED_MASTER_EPOCH = 2000;
    /// The in-sync set's epoch is old.
    CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH = 2001;
    /// Not the master of the set.
    CONTROLLER_INVALID_MASTER = 2002;
    /// The replicas do not belong to the set.
    CONTROLLER_INVALID_REPLICAS = 2003;
    /// The set has no master.
    CONTROLLER_MASTER_NOT_AVAILABLE = 2004;
    /// The request makes no sense.
    CONTROLLER_INVALID_REQUEST = 2005;
    /// The replica does not send heartbeats.
    CONTROLLER_BROKER_NOT_ALIVE = 2006;
    /// The controller asked is not the leader.
    CONTROLLER_NOT_LEADER = 2007;
    /// The controller does not know the set.
    CONTROLLER_BROKER_METADATA_NOT_EXIST = 2008;
    /// A living replica is not forgotten unless that is asked for.
    CONTROLLER_INVALID_CLEAN_BROKER_METADATA = 2009;
    /// The replica has not registered.
    CONTROLLER_BROKER_NEED_TO_BE_REGISTERED = 2010;
    /// The set has its master already.
    CONTROLLER_MASTER_STILL_EXIST = 2011;
    /// No replica could become master.
    CONTROLLER_ELECT_MASTER_FAILED = 2012;
    /// The in-sync set could not be changed.
    CONTROLLER_ALTER_SYNC_STATE_SET_FAILED = 2013;
    /// The replica's number is wrong.
    CONTROLLER_BROKER_ID_INVALID = 2014;
    /// The controllers' log failed.
    CONTROLLER_JRAFT_INTERNAL_ERROR = 2015;
    /// The controller has not heard of the broker.
    CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS = 2016;
    /// No such user.
    USER_NOT_EXIST = 3001;
    /// No such policy.
    POLICY_NOT_EXIST = 3002;
}
