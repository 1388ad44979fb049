//! Examples of the nouns: the commands of each that are looked for first.

/// Noun and its examples.
pub const NOUNS: &[(&str, &[&str])] = &[
    (
        "cluster",
        &[
            "rmq cluster list",
            "rmq cluster describe OrdersEU",
            "rmq cluster doctor --fix-hints",
        ],
    ),
    (
        "broker",
        &[
            "rmq broker list",
            "rmq broker describe broker-a",
            "rmq broker set-config broker-a fileReservedTime=48 --dry-run",
            "rmq broker drain broker-b",
        ],
    ),
    (
        "broker cold-flow",
        &[
            "rmq broker cold-flow list",
            "rmq broker cold-flow set CG_ORDERS 3MiB --broker broker-a",
        ],
    ),
    (
        "broker container",
        &[
            "rmq broker container add 10.0.0.1:10811 --broker-config /etc/rocketmq/broker-b.conf",
            "rmq broker container remove 10.0.0.1:10811 C1:broker-b:0",
        ],
    ),
    (
        "namesrv",
        &[
            "rmq namesrv list -n '10.0.0.1:9876;10.0.0.2:9876'",
            "rmq namesrv diff",
            "rmq namesrv routes OrderEvents",
        ],
    ),
    (
        "topic",
        &[
            "rmq topic list",
            "rmq topic describe OrderEvents",
            "rmq topic create OrderEvents --queues 8",
            "rmq topic scale OrderEvents --to 16",
        ],
    ),
    (
        "topic order",
        &["rmq topic order get Steps", "rmq topic order set Steps"],
    ),
    (
        "static-topic",
        &[
            "rmq static-topic get Ledger",
            "rmq static-topic create Ledger --queues 16 --cluster C1",
            "rmq static-topic remap Ledger --dry-run",
        ],
    ),
    ("lite", &["rmq lite list", "rmq lite get Sessions session-4711"]),
    (
        "group",
        &[
            "rmq group list",
            "rmq group lag CG_ORDERS --watch",
            "rmq group describe CG_ORDERS",
            "rmq group reset CG_ORDERS --topic OrderEvents --to -2h",
        ],
    ),
    (
        "offset",
        &[
            "rmq offset get CG_ORDERS --topic OrderEvents",
            "rmq offset export CG_ORDERS --out offsets.json",
            "rmq offset undo CG_ORDERS",
        ],
    ),
    (
        "producer",
        &["rmq producer list", "rmq producer clients PG_ORDERS"],
    ),
    (
        "consumer",
        &[
            "rmq consumer clients --group CG_ORDERS",
            "rmq consumer stack 10.0.0.9@4711",
        ],
    ),
    (
        "message",
        &[
            "rmq message find --topic OrderEvents --key K-7",
            "rmq message tail --topic OrderEvents --follow",
            "rmq message trace 7F00000100002A9F0000000000000346",
            "rmq message send --topic OrderEvents --body hello",
        ],
    ),
    (
        "kv",
        &["rmq kv list", "rmq kv get ORDER_TOPIC_CONFIG OrderEvents"],
    ),
    (
        "user",
        &[
            "rmq user list",
            "rmq user create alice --password-from env:ALICE_PW",
        ],
    ),
    (
        "acl",
        &[
            "rmq acl list --subject alice",
            "rmq acl check User:alice --resource Topic:OrderEvents --action Pub",
        ],
    ),
    (
        "controller",
        &[
            "rmq controller get -a 10.0.0.1:9878",
            "rmq controller sync-state broker-m",
            "rmq controller elect broker-m:2",
        ],
    ),
    (
        "dlq",
        &[
            "rmq dlq list",
            "rmq dlq show CG_ORDERS --since -2h",
            "rmq dlq resend CG_ORDERS --all --dry-run",
        ],
    ),
    (
        "export",
        &[
            "rmq export all --out cluster.toml",
            "rmq export messages --topic OrderEvents --out orders.jsonl --since -2h",
            "rmq export offsets CG_ORDERS --out offsets.json",
        ],
    ),
    (
        "import",
        &[
            "rmq import messages --file orders.jsonl --to-topic OrderEvents2",
            "rmq import offsets offsets.json --dry-run",
        ],
    ),
    (
        "bench",
        &[
            "rmq bench produce --topic Bench --size 1KiB --for 10s",
            "rmq bench latency --topic Bench --count 100",
        ],
    ),
    (
        "store",
        &[
            "rmq store info ~/store",
            "rmq store verify ~/store",
            "rmq store find ~/store --key 4711",
        ],
    ),
    (
        "config",
        &[
            "rmq config set dev namesrv 127.0.0.1:9876",
            "rmq config use dev",
            "rmq config test",
        ],
    ),
];
