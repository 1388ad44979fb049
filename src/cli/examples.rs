//! Examples: one table for the help texts and for the hint after an incomplete command.

mod nouns;

/// Command path and its examples.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "rmq standalone --demo --tui",
            "rmq cluster list -n 10.0.0.1:9876",
            "rmq topic update OrderEvents --perm 6",
            "rmq group lag CG_ORDERS --watch",
        ],
    ),
    (
        "cluster list",
        &[
            "rmq cluster list",
            "rmq cluster list -o json",
            "rmq cluster list --watch=5s",
        ],
    ),
    (
        "cluster doctor",
        &[
            "rmq cluster doctor --fix-hints",
            "rmq cluster doctor --checks NS,BR6,GR1 -o json",
            "rmq cluster doctor --fail-on error --deadline 10s",
        ],
    ),
    ("doctor", &["rmq doctor", "rmq doctor --list"]),
    (
        "broker list",
        &[
            "rmq broker list -o wide",
            "rmq broker list --sort-by in_tps_10s:desc",
        ],
    ),
    (
        "broker describe",
        &[
            "rmq broker describe broker-a",
            "rmq broker describe broker-a:1 -o json",
        ],
    ),
    (
        "broker get-config",
        &[
            "rmq broker get-config broker-a",
            "rmq broker get-config broker-a flushDiskType brokerRole",
        ],
    ),
    (
        "broker set-config",
        &[
            "rmq broker set-config broker-a fileReservedTime=48",
            "rmq broker set-config broker-a fileReservedTime=48 --dry-run",
            "rmq broker set-config --cluster C1 --replicas maxMessageSize=8388608 traceOn=false",
        ],
    ),
    (
        "broker drain",
        &[
            "rmq broker drain broker-b",
            "rmq broker drain broker-b --deadline 2h --ignore-delayed --yes",
            "rmq broker drain broker-b --then-stop",
        ],
    ),
    ("broker undrain", &["rmq broker undrain broker-b"]),
    (
        "cluster describe",
        &["rmq cluster describe", "rmq cluster describe OrdersEU -o json"],
    ),
    (
        "cluster stats",
        &["rmq cluster stats", "rmq cluster stats OrdersEU -o wide"],
    ),
    (
        "cluster top",
        &["rmq cluster top", "rmq cluster top --interval 1s"],
    ),
    (
        "broker stats",
        &[
            "rmq broker stats broker-a",
            "rmq broker stats broker-a --filter 'key~putTps' --watch",
        ],
    ),
    (
        "broker consume-stats",
        &["rmq broker consume-stats broker-a --min-diff 1 --sort-by diff:desc"],
    ),
    (
        "broker ha",
        &["rmq broker ha", "rmq broker ha broker-a:1 -o wide"],
    ),
    ("broker epoch", &["rmq broker epoch broker-a"]),
    (
        "broker set-permission",
        &[
            "rmq broker set-permission broker-a -W",
            "rmq broker set-permission broker-a 6 --yes",
        ],
    ),
    ("broker wipe-write", &["rmq broker wipe-write broker-a --yes"]),
    ("broker restore-write", &["rmq broker restore-write broker-a"]),
    (
        "broker clean-cq",
        &[
            "rmq broker clean-cq broker-a",
            "rmq broker clean-cq --cluster C1 --yes=C1",
        ],
    ),
    (
        "broker clean-commitlog",
        &["rmq broker clean-commitlog broker-a --dry-run"],
    ),
    (
        "broker clean-unused-topics",
        &["rmq broker clean-unused-topics broker-a"],
    ),
    (
        "broker set-readahead",
        &[
            "rmq broker set-readahead random broker-a",
            "rmq broker set-readahead normal --cluster C1",
        ],
    ),
    ("broker cold-flow list", &["rmq broker cold-flow list --watch"]),
    (
        "broker cold-flow set",
        &["rmq broker cold-flow set CG_ORDERS 3MiB --broker broker-a"],
    ),
    (
        "broker cold-flow unset",
        &["rmq broker cold-flow unset CG_ORDERS"],
    ),
    (
        "broker reset-flush-offset",
        &["rmq broker reset-flush-offset broker-a:1 --to 1073741824"],
    ),
    (
        "broker container add",
        &["rmq broker container add 10.0.0.1:10811 --broker-config /etc/rocketmq/broker-b.conf"],
    ),
    (
        "broker container remove",
        &["rmq broker container remove 10.0.0.1:10811 C1:broker-b:0"],
    ),
    (
        "broker pop-rollback",
        &["rmq broker pop-rollback broker-a --dry-run"],
    ),
    (
        "broker check-cq",
        &["rmq broker check-cq --topic OrderEvents --cluster C1"],
    ),
    (
        "broker export-config",
        &["rmq broker export-config broker-a --tables topics"],
    ),
    (
        "namesrv get-config",
        &[
            "rmq namesrv get-config",
            "rmq namesrv get-config enableTopicList scanNotActiveBrokerInterval",
        ],
    ),
    (
        "namesrv set-config",
        &["rmq namesrv set-config enableTopicList=false --dry-run"],
    ),
    (
        "namesrv routes",
        &["rmq namesrv routes", "rmq namesrv routes OrderEvents -o wide"],
    ),
    (
        "namesrv diff",
        &[
            "rmq namesrv diff -n '10.0.0.1:9876;10.0.0.2:9876'",
            "rmq namesrv diff --settle 30s",
            "rmq namesrv diff --watch",
        ],
    ),
    (
        "namesrv drop-broker",
        &["rmq namesrv drop-broker broker-b --dry-run"],
    ),
    ("kv list", &["rmq kv list", "rmq kv list MY_NAMESPACE -o json"]),
    ("kv get", &["rmq kv get ORDER_TOPIC_CONFIG OrderEvents"]),
    (
        "kv set",
        &["rmq kv set ORDER_TOPIC_CONFIG OrderEvents 'broker-a:8;broker-b:8'"],
    ),
    (
        "kv delete",
        &["rmq kv delete ORDER_TOPIC_CONFIG OrderEvents --yes"],
    ),
    (
        "user list",
        &["rmq user list", "rmq user list ali --broker broker-a"],
    ),
    ("user get", &["rmq user get alice"]),
    (
        "user create",
        &[
            "rmq user create alice --password-from env:ALICE_PW",
            "rmq user create ops --type super --password-from file:/etc/rmq/ops.pw --cluster C1",
        ],
    ),
    (
        "user update",
        &[
            "rmq user update alice --status disable",
            "rmq user update alice --password-from -",
        ],
    ),
    ("user delete", &["rmq user delete alice --broker broker-a"]),
    (
        "user copy",
        &["rmq user copy alice bob --from broker-a --to broker-b"],
    ),
    (
        "acl list",
        &[
            "rmq acl list",
            "rmq acl list --subject alice --resource Topic:Order",
        ],
    ),
    ("acl get", &["rmq acl get User:alice"]),
    (
        "acl create",
        &[
            "rmq acl create User:alice --resource Topic:OrderEvents --action Pub,Sub --decision allow",
            "rmq acl create User:alice --resource 'Group:CG_*' --action Sub --decision allow --source-ip 10.0.0.0/8",
        ],
    ),
    (
        "acl update",
        &["rmq acl update User:alice --resource Topic:OrderEvents --action Pub --decision deny"],
    ),
    (
        "acl delete",
        &["rmq acl delete User:alice --resource Topic:OrderEvents"],
    ),
    (
        "acl check",
        &["rmq acl check User:alice --resource Topic:OrderEvents --action Pub --source-ip 10.0.0.7"],
    ),
    (
        "acl copy",
        &["rmq acl copy User:alice --from broker-a --to broker-b"],
    ),
    (
        "controller get",
        &["rmq controller get", "rmq controller get -a 10.0.0.1:9878"],
    ),
    (
        "controller get-config",
        &["rmq controller get-config enableElectUncleanMaster -a 10.0.0.1:9878"],
    ),
    (
        "controller set-config",
        &["rmq controller set-config scanNotActiveBrokerInterval=6000 --dry-run"],
    ),
    (
        "controller sync-state",
        &["rmq controller sync-state", "rmq controller sync-state broker-m"],
    ),
    ("controller elect", &["rmq controller elect broker-m:2"]),
    (
        "controller clean-broker",
        &["rmq controller clean-broker broker-m --id 3 -a 10.0.0.1:9878"],
    ),
    (
        "namesrv list",
        &["rmq namesrv list -n '10.0.0.1:9876;10.0.0.2:9876'"],
    ),
    (
        "topic list",
        &[
            "rmq topic list",
            "rmq topic list --all -o name",
            "rmq topic list --with-groups --stats",
            "rmq topic list --no-consumers --idle 30d",
            "rmq topic list --filter 'name~order && perm!=RW-'",
        ],
    ),
    ("topic get", &["rmq topic get OrderEvents"]),
    (
        "topic create",
        &[
            "rmq topic create OrderEvents --queues 8",
            "rmq topic create OrderEvents --queues 8 --per-broker broker-b=4",
            "rmq topic create Steps --type fifo --order --cluster C1 --yes",
        ],
    ),
    (
        "topic update",
        &[
            "rmq topic update OrderEvents --perm 6",
            "rmq topic update OrderEvents --perm -W --broker broker-a",
            "rmq topic update OrderEvents --read-queues 16 --write-queues 16 --yes",
        ],
    ),
    (
        "topic scale",
        &[
            "rmq topic scale OrderEvents --to 16",
            "rmq topic scale OrderEvents --to 8 --deadline 2h --ignore-group CG_OLD",
            "rmq topic scale OrderEvents --resume",
            "rmq topic scale OrderEvents --undo",
        ],
    ),
    (
        "topic delete",
        &[
            "rmq topic delete OrderEvents",
            "rmq topic delete OrderEvents --dry-run",
        ],
    ),
    (
        "topic route",
        &[
            "rmq topic route OrderEvents",
            "rmq topic route OrderEvents --each-namesrv",
        ],
    ),
    (
        "topic status",
        &[
            "rmq topic status OrderEvents",
            "rmq topic status OrderEvents --sum",
        ],
    ),
    (
        "topic describe",
        &[
            "rmq topic describe OrderEvents",
            "rmq topic describe OrderEvents -o json",
        ],
    ),
    ("topic clusters", &["rmq topic clusters OrderEvents"]),
    ("topic consumers", &["rmq topic consumers OrderEvents"]),
    ("topic producers", &["rmq topic producers OrderEvents"]),
    (
        "topic stats",
        &[
            "rmq topic stats",
            "rmq topic stats OrderEvents",
            "rmq topic stats --active --sort-by in_24h:desc",
        ],
    ),
    (
        "topic allocate",
        &["rmq topic allocate OrderEvents --clients 10.0.0.1@1,10.0.0.2@1 --strategy circle"],
    ),
    (
        "topic find-unused",
        &[
            "rmq topic find-unused",
            "rmq topic find-unused --idle 30d -o name",
        ],
    ),
    (
        "topic stop-writes",
        &["rmq topic stop-writes OrderEvents --broker broker-a"],
    ),
    ("topic allow-writes", &["rmq topic allow-writes OrderEvents"]),
    (
        "topic cq",
        &["rmq topic cq OrderEvents --queue 0 --from 1200 --limit 20 --broker broker-a"],
    ),
    ("topic order get", &["rmq topic order get Steps"]),
    (
        "topic order set",
        &[
            "rmq topic order set Steps",
            "rmq topic order set Steps 'broker-a:4;broker-b:4'",
        ],
    ),
    ("topic order unset", &["rmq topic order unset Steps"]),
    (
        "group list",
        &["rmq group list", "rmq group list --filter 'name~CG_'"],
    ),
    (
        "group lag",
        &[
            "rmq group lag CG_ORDERS",
            "rmq group lag --sort-by lag:desc",
            "rmq group lag CG_ORDERS --fail-over 1000 --quiet",
            "rmq group lag CG_ORDERS --by client",
            "rmq group lag --all -o prometheus",
        ],
    ),
    (
        "group reset",
        &[
            "rmq group reset CG_ORDERS --topic OrderEvents --to '2h ago'",
            "rmq group reset CG_ORDERS --topic OrderEvents --to earliest --execute",
            "rmq group reset CG_ORDERS --topic OrderEvents --queue broker-a/3=1500 --execute",
            "rmq group reset CG_ORDERS --topic OrderEvents --from-group CG_BILLING",
            "rmq group reset CG_ORDERS --topic OrderEvents --shift -100 --execute --yes=CG_ORDERS",
        ],
    ),
    (
        "group skip",
        &["rmq group skip CG_ORDERS --topic OrderEvents --execute"],
    ),
    (
        "group clone-offsets",
        &["rmq group clone-offsets CG_ORDERS CG_ORDERS_V2 --topic OrderEvents"],
    ),
    (
        "offset get",
        &[
            "rmq offset get CG_ORDERS",
            "rmq offset get CG_ORDERS --topic OrderEvents -o json",
        ],
    ),
    (
        "offset set",
        &["rmq offset set CG_ORDERS broker-a/0=0 broker-a/1=15 --topic OrderEvents"],
    ),
    (
        "offset export",
        &[
            "rmq offset export --out offsets.json",
            "rmq offset export CG_ORDERS --topic OrderEvents",
        ],
    ),
    (
        "offset import",
        &[
            "rmq offset import offsets.json --group CG_ORDERS",
            "rmq offset import offsets.json --by-time --cluster Other --yes",
        ],
    ),
    (
        "offset undo",
        &[
            "rmq offset undo CG_ORDERS",
            "rmq offset undo CG_ORDERS --topic OrderEvents --yes=CG_ORDERS",
        ],
    ),
    (
        "offset diff",
        &[
            "rmq offset diff offsets.json",
            "rmq offset diff before.json after.json",
        ],
    ),
    (
        "group clients",
        &[
            "rmq group clients CG_ORDERS",
            "rmq group clients CG_ORDERS --stack",
        ],
    ),
    (
        "group get",
        &["rmq group get CG_ORDERS", "rmq group get CG_ORDERS -o json"],
    ),
    ("group describe", &["rmq group describe CG_ORDERS"]),
    (
        "group check",
        &[
            "rmq group check CG_ORDERS",
            "rmq group check CG_ORDERS --quiet -o json",
        ],
    ),
    (
        "group client-info",
        &[
            "rmq group client-info CG_ORDERS",
            "rmq group client-info CG_ORDERS --filter 'cached>1000'",
        ],
    ),
    (
        "group create",
        &[
            "rmq group create CG_ORDERS --retry-max 5",
            "rmq group create CG_ORDERS --retry-policy exponential:initial=5s,max=2h,multiplier=2",
        ],
    ),
    (
        "group update",
        &[
            "rmq group update CG_ORDERS --retry-max 5",
            "rmq group update CG_ORDERS --retry-policy custom:1s,5s,10s --broker broker-a",
        ],
    ),
    (
        "group delete",
        &[
            "rmq group delete CG_OLD --dry-run",
            "rmq group delete CG_OLD --keep-dlq",
        ],
    ),
    (
        "group set-mode",
        &["rmq group set-mode CG_ORDERS --topic OrderEvents --mode pop"],
    ),
    ("group pause", &["rmq group pause CG_ORDERS"]),
    (
        "group forbid",
        &["rmq group forbid CG_ORDERS --topic OrderEvents"],
    ),
    ("group allow", &["rmq group allow CG_ORDERS --topic OrderEvents"]),
    ("group resume", &["rmq group resume CG_ORDERS"]),
    (
        "producer list",
        &["rmq producer list", "rmq producer list --broker broker-a -o json"],
    ),
    (
        "producer clients",
        &[
            "rmq producer clients PG_ORDERS",
            "rmq producer clients PG_ORDERS --topic OrderEvents",
        ],
    ),
    (
        "consumer clients",
        &["rmq consumer clients", "rmq consumer clients --group CG_ORDERS"],
    ),
    ("consumer stack", &["rmq consumer stack 10.0.0.9@4711"]),
    (
        "consumer running-info",
        &["rmq consumer running-info 10.0.0.9@4711 --group CG_ORDERS"],
    ),
    (
        "message send",
        &[
            "rmq message send --topic OrderEvents --body '{\"order\":7}' --key K-7 --tag TagA",
            "rmq message send --topic OrderEvents --file orders.txt --lines --rate 50",
            "rmq message send --topic OrderEvents --body hello --delay 90s",
        ],
    ),
    (
        "message get",
        &[
            "rmq message get 7F00000100002A9F0000000000000346",
            "rmq message get --topic OrderEvents --broker broker-a --queue 3 --offset 15",
        ],
    ),
    (
        "message find",
        &[
            "rmq message find --topic OrderEvents --key K-7",
            "rmq message find --topic OrderEvents --key K-7 --since -2h",
            "rmq message find --topic OrderEvents --body-json 'order.id=7' --since -1h",
        ],
    ),
    (
        "message view",
        &["rmq message view 7F00000100002A9F0000000000000346"],
    ),
    (
        "message list",
        &[
            "rmq message list --topic OrderEvents --from -1h --limit 100",
            "rmq message list --topic OrderEvents --broker broker-a --queue 3 --from-offset 1200",
            "rmq message list --topic OrderEvents --sql 'amount > 100' --format '{offset} {keys} {body}'",
            "rmq message list --topic %DLQ%CG_ORDERS --limit 0 -o jsonl",
        ],
    ),
    (
        "message count",
        &[
            "rmq message count --topic OrderEvents",
            "rmq message count --topic OrderEvents --since -1d --by broker",
            "rmq message count --topic OrderEvents --by tag",
        ],
    ),
    (
        "message body",
        &["rmq message body 7F00000100002A9F0000000000000346 --out order.json"],
    ),
    (
        "message decode-id",
        &["rmq message decode-id 7F00000100002A9F0000000000000346"],
    ),
    (
        "message resend",
        &["rmq message resend 7F00000100002A9F0000000000000346 --to-topic Replay"],
    ),
    (
        "message push",
        &["rmq message push 7F00000100002A9F0000000000000346 --group CG_ORDERS --client 10.0.0.9@4711"],
    ),
    (
        "bench produce",
        &[
            "rmq bench produce --topic Bench --size 1KiB --for 10s",
            "rmq bench produce --topic Bench --count 10000 --in-flight 32",
        ],
    ),
    ("bench consume", &["rmq bench consume --topic Bench --for 10s"]),
    (
        "bench latency",
        &[
            "rmq bench latency --topic Bench --count 100",
            "rmq bench latency --broker broker-a --size 1KiB",
        ],
    ),
    (
        "bench cluster-latency",
        &[
            "rmq bench cluster-latency",
            "rmq bench cluster-latency --interval 10s -o jsonl",
        ],
    ),
    (
        "message tail",
        &[
            "rmq message tail --topic OrderEvents",
            "rmq message tail --topic OrderEvents --follow --tag TagA",
            "rmq message tail --topic OrderEvents --follow --sql 'amount > 100' --rate 10/s --for 5m",
            "rmq message tail --topic OrderEvents --from '90m ago' --limit 100 -o jsonl",
        ],
    ),
    (
        "message trace",
        &[
            "rmq message trace 7F00000100002A9F0000000000000346",
            "rmq message trace --key K-7 --topic OrderEvents -o json",
        ],
    ),
    (
        "message export",
        &[
            "rmq message export --topic OrderEvents --out orders.jsonl --since -2h",
            "rmq message export --topic OrderEvents --out - --tag TagA --limit 100",
        ],
    ),
    (
        "message import",
        &["rmq message import --file orders.jsonl --to-topic OrderEvents2 --rate 100/s"],
    ),
    (
        "export all",
        &["rmq export all --out cluster.toml", "rmq export all --cluster C1"],
    ),
    ("export topics", &["rmq export topics --out topics.toml"]),
    ("export groups", &["rmq export groups --out groups.toml"]),
    ("export config", &["rmq export config -o csv --out settings.csv"]),
    ("export metrics", &["rmq export metrics -o json"]),
    (
        "apply",
        &[
            "rmq apply -f cluster.toml --dry-run",
            "rmq apply -f clusters/prod/ --prune --yes",
        ],
    ),
    ("diff", &["rmq diff -f cluster.toml"]),
    (
        "cluster diff",
        &[
            "rmq cluster diff prod-eu prod-us",
            "rmq cluster diff prod-eu cluster.toml --as-apply",
        ],
    ),
    (
        "topic diff",
        &[
            "rmq topic diff broker-a broker-b",
            "rmq topic diff prod-eu prod-us --only OrderEvents",
        ],
    ),
    ("group diff", &["rmq group diff prod-eu prod-us"]),
    ("broker restart-plan", &["rmq broker restart-plan --cluster C1"]),
    (
        "dlq list",
        &["rmq dlq list", "rmq dlq list --sort-by newest:desc"],
    ),
    (
        "dlq show",
        &[
            "rmq dlq show CG_ORDERS --since -2h",
            "rmq dlq show CG_ORDERS --filter 'tag=TagA && resent=no' -o wide",
        ],
    ),
    (
        "dlq resend",
        &[
            "rmq dlq resend CG_ORDERS --all --dry-run",
            "rmq dlq resend CG_ORDERS --since -2h --to-retry --rate 100/s",
            "rmq dlq resend CG_ORDERS --resume",
        ],
    ),
    ("dlq export", &["rmq dlq export CG_ORDERS --out dead.jsonl"]),
    (
        "tui",
        &[
            "rmq tui",
            "rmq tui --context prod-eu --read-only --screen heartbeats",
            "rmq tui --store /data/rocketmq/store",
            "rmq tui --record /var/lib/rmq/history --budget 10 --theme night",
        ],
    ),
    (
        "standalone",
        &["rmq standalone", "rmq standalone --store /tmp/rmq --demo --tui"],
    ),
    ("namesrv start", &["rmq namesrv start -c conf/namesrv.conf"]),
    (
        "broker start",
        &["rmq broker start -c conf/broker.conf --set namesrvAddr=10.0.0.1:9876"],
    ),
    (
        "store info",
        &["rmq store info ~/store", "rmq store info ~/store -o json"],
    ),
    (
        "store dump-compaction",
        &[
            "rmq store dump-compaction ~/store/compaction/compactionLog/Prices/0",
            "rmq store dump-compaction ~/store/compaction/compactionLog/Prices/0/00000000000000000000 --body -o jsonl",
        ],
    ),
    (
        "store commitlog",
        &[
            "rmq store commitlog ~/store --topic OrderEvents --limit 20",
            "rmq store commitlog ~/store --from '90m ago' --key 4711 -o jsonl --body",
            "rmq store commitlog ~/store --at 1073741824 --hex",
            "rmq store commitlog ~/store --at 1073741824 --save-body order.json",
            "rmq store commitlog ~/store --from 1073741824 --to 1073845000 -o wide",
        ],
    ),
    (
        "store consumequeue",
        &[
            "rmq store consumequeue ~/store OrderEvents 0 --from 1200 --limit 20",
            "rmq store consumequeue ~/store OrderEvents --from '2h ago' --bad",
        ],
    ),
    (
        "store index",
        &[
            "rmq store index ~/store",
            "rmq store index ~/store 20261129174757416",
            "rmq store index ~/store --key OrderEvents 4711",
        ],
    ),
    ("store checkpoint", &["rmq store checkpoint ~/store"]),
    (
        "store config",
        &["rmq store config ~/store", "rmq store config ~/store topics.json"],
    ),
    (
        "store timer",
        &[
            "rmq store timer ~/store",
            "rmq store timer ~/store --slots --pending --from now",
            "rmq store timer ~/store --log -o csv",
        ],
    ),
    (
        "store find",
        &[
            "rmq store find ~/store --key 4711",
            "rmq store find ~/store --id 7F0000010000793B0000000000000516",
            "rmq store find ~/store --topic OrderEvents --body-contains refund -o jsonl --body",
        ],
    ),
    (
        "store verify",
        &[
            "rmq store verify ~/store",
            "rmq store verify ~/store --quick -o json",
            "rmq store verify ~/store --throttle 50 -o jsonl",
            "rmq store verify ~/store --resume",
        ],
    ),
    (
        "store repair",
        &[
            "rmq store repair ~/store --plan plan.json",
            "rmq store repair ~/store --apply plan.json",
            "rmq store repair ~/store --undo repair-20261129-180846",
        ],
    ),
    (
        "store stats",
        &[
            "rmq store stats ~/store",
            "rmq store stats ~/store --topic OrderEvents --every 10m -o csv",
        ],
    ),
    (
        "store export",
        &[
            "rmq store export ~/store --topic OrderEvents --from '2h ago' --out orders.jsonl",
            "rmq store export ~/store --topic OrderEvents,%RETRY%billing --out /tmp/orders-store/",
            "rmq store export ~/store --key 4711 --out -",
        ],
    ),
    (
        "static-topic get",
        &[
            "rmq static-topic get Ledger",
            "rmq static-topic get Ledger --history -o wide",
        ],
    ),
    (
        "static-topic create",
        &[
            "rmq static-topic create Ledger --queues 16 --cluster C1",
            "rmq static-topic create Ledger --queues 4 --broker broker-a,broker-b --dry-run",
        ],
    ),
    (
        "static-topic update",
        &[
            "rmq static-topic update Ledger --queues 32",
            "rmq static-topic update Ledger --map-file Ledger-1764331200000.after",
        ],
    ),
    (
        "static-topic remap",
        &[
            "rmq static-topic remap Ledger --broker broker-c,broker-d",
            "rmq static-topic remap Ledger --dry-run",
            "rmq static-topic remap Ledger --map-file Ledger-1764331200000.after",
        ],
    ),
    (
        "lite list",
        &["rmq lite list", "rmq lite list --cluster C1 -o json"],
    ),
    (
        "lite get",
        &["rmq lite get Sessions", "rmq lite get Sessions session-4711"],
    ),
    (
        "mqadmin",
        &[
            "rmq mqadmin topicRoute -t OrderEvents -n 10.0.0.1:9876",
            "rmq -o json mqadmin --no-hint consumerProgress -g CG_ORDERS",
            "rmq --dry-run mqadmin updateTopic -c C1 -t OrderEvents -p 4",
        ],
    ),
    (
        "export messages",
        &[
            "rmq export messages --topic OrderEvents --out orders.jsonl --since -2h",
            "rmq export messages --topic OrderEvents --out orders.jsonl --resume",
        ],
    ),
    (
        "export offsets",
        &["rmq export offsets CG_ORDERS --topic OrderEvents --out offsets.json"],
    ),
    (
        "import messages",
        &["rmq import messages --file orders.jsonl --to-topic OrderEvents2 --rate 100/s"],
    ),
    (
        "import offsets",
        &[
            "rmq import offsets offsets.json --dry-run",
            "rmq import offsets offsets.json --group CG_ORDERS --by-time",
        ],
    ),
    ("dlq purge", &["rmq dlq purge CG_ORDERS"]),
    ("config get", &["rmq config get", "rmq config get -o json"]),
    ("config list", &["rmq config list"]),
    (
        "config set",
        &[
            "rmq config set dev namesrv 127.0.0.1:9876",
            "rmq config set prod protected true",
            "rmq config set prod broker_map 172.17.0.0/16=127.0.0.1",
            "rmq config set prod tls.ca /etc/ssl/mq-ca.pem",
            "rmq config set journal off",
        ],
    ),
    ("config use", &["rmq config use prod-eu"]),
    (
        "config delete",
        &["rmq config delete dev", "rmq config delete dev --dry-run"],
    ),
    ("config path", &["rmq config path"]),
    (
        "config test",
        &["rmq config test", "rmq config test --context prod-eu"],
    ),
    ("version", &["rmq version", "rmq version -o json"]),
    (
        "completion",
        &["rmq completion bash > /etc/bash_completion.d/rmq"],
    ),
    ("schema", &["rmq schema", "rmq schema GroupLag"]),
    ("man", &["rmq man --out /usr/local/share/man/man1"]),
];

/// The examples of a command or noun.
fn of(path: &str) -> Option<&'static [&'static str]> {
    let mut all = EXAMPLES.iter().chain(nouns::NOUNS);
    all.find(|(of, _)| *of == path).map(|(_, lines)| *lines)
}

/// Adds the examples to the help of their commands.
pub fn add(command: clap::Command) -> clap::Command {
    add_below(command, "")
}

fn add_below(mut command: clap::Command, path: &str) -> clap::Command {
    if let Some(lines) = of(path) {
        let mut text = String::from("Examples:");
        for line in lines {
            text.push_str("\n  ");
            text.push_str(line);
        }
        command = command.after_help(text);
    }
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for name in names {
        let below = if path.is_empty() {
            name.clone()
        } else {
            format!("{path} {name}")
        };
        command = command.mut_subcommand(name, |sub| add_below(sub, &below));
    }
    command
}

/// The first example of the command that the arguments begin with.
pub fn nearest(args: impl Iterator<Item = String>) -> Option<&'static str> {
    let words: Vec<String> = args.filter(|a| !a.starts_with('-')).take(3).collect();
    // The longest path first: `broker cold-flow set` before `broker cold-flow`.
    (1..=words.len())
        .rev()
        .find_map(|n| of(&words[..n].join(" ")).and_then(|lines| lines.first().copied()))
}

/// Splits as a shell does, single quotes and redirections included.
#[cfg(test)]
pub fn words(line: &str) -> Vec<String> {
    let line = line.split(" > ").next().unwrap();
    let mut words = vec![String::new()];
    let mut inside = false;
    for c in line.chars() {
        match c {
            '\'' => inside = !inside,
            ' ' if !inside => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 1 of the specification: every page has examples, each of them parses, and it is one of that command.
    #[test]
    fn every_help_page_has_examples_that_parse() {
        let mut pages = Vec::new();
        walk(&super::super::command(), "", &mut pages);
        assert!(pages.len() > 190, "{}", pages.len());
        for (path, help) in &pages {
            let lines = help.split_once("Examples:").map_or("", |(_, lines)| lines);
            let lines: Vec<&str> = lines.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
            assert!((1..=5).contains(&lines.len()), "{path}: {} examples", lines.len());
            for line in lines {
                let parsed = super::super::command().try_get_matches_from(words(line));
                let parsed = parsed.unwrap_or_else(|e| panic!("{path}: {line}: {e}"));
                let called = called(&parsed);
                assert!(
                    path.is_empty() || called == *path || called.starts_with(&format!("{path} ")),
                    "{path}: {line} is {called}"
                );
            }
        }
        // A row of the tables that no page shows has a wrong path.
        for (path, _) in EXAMPLES.iter().chain(nouns::NOUNS) {
            let shown = pages.iter().filter(|(page, _)| page == path).count();
            assert_eq!(shown, 1, "{path}");
        }
    }

    /// Every command below with its path and its long help.
    fn walk(command: &clap::Command, path: &str, pages: &mut Vec<(String, String)>) {
        // Unwrapped: an example is one line.
        let help = command.clone().term_width(0).render_long_help().to_string();
        pages.push((path.to_owned(), help));
        for sub in command.get_subcommands() {
            let path = format!("{path} {}", sub.get_name());
            walk(sub, path.trim_start(), pages);
        }
    }

    /// The command that a line calls.
    fn called(mut at: &clap::ArgMatches) -> String {
        let mut path = Vec::new();
        while let Some((name, below)) = at.subcommand() {
            path.push(name);
            at = below;
        }
        path.join(" ")
    }

    #[test]
    fn an_incomplete_command_gets_its_example() {
        let args = ["topic", "update", "--perm"].map(str::to_owned);
        assert_eq!(
            nearest(args.into_iter()),
            Some("rmq topic update OrderEvents --perm 6")
        );
    }
}
