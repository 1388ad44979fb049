#!/usr/bin/env bash
# scale.sh rmq|book [java|own]: a topic goes from 16 to 8 queues under Java producers and consumers, with delayed, timed and half
# messages on their way; prints what each group never got. `rmq` is `rmq topic scale`, `book` is the way of the books: write 8,
# wait until queues 8 to 15 have no backlog, read 8. The cluster is Java 5.3.3 (java, the default) or rmq's own (own). About 4 minutes.
# Needs `cargo build --bin rmq` and the Java peers (tests/java/fetch.sh). RMQ=path names the binary.
set -eu
way=${1:?rmq or book} kind=${2:-java}
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
RMQ=${RMQ:-${CARGO_TARGET_DIR:-$repo/target}/debug/rmq}
lib=${RMQ_JAVA_CACHE:-$HOME/.cache/rmq-java}
ns=${NS_PORT:-21876} broker=${BROKER_PORT:-21911}
sh "$repo/tests/java/fetch.sh" "$lib"
work=$(mktemp -d "${TMPDIR:-/tmp}/rmq-scale.XXXXXX")
pids=
cleanup() {
  for pid in $pids; do kill -9 "$pid" 2> /dev/null || :; done
  wait 2> /dev/null || :
  [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
mkdir -p "$work/home" "$work/tmp" "$work/classes"
export HOME=$work/home RMQ_NAMESRV=127.0.0.1:$ns ROCKETMQ_HOME=$work
java_with() { # HEAP CLASS ARGS...
  local heap=$1; shift
  exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Xmx$heap" -XX:MaxDirectMemorySize=512m "-Duser.home=$work/home" \
    "-Djava.io.tmpdir=$work/tmp" -Dtls.test.mode.enable=false -Dtls.server.mode=disabled "-Drocketmq.client.logRoot=$work/home/logs" \
    "-Drmq.logback.configurationFile=file:$repo/tests/java/logback.xml" "-Drmq.log.file=$work/$1.log" \
    --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED --add-exports=java.base/sun.nio.ch=ALL-UNNAMED \
    --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED \
    --add-opens=java.base/jdk.internal.misc=ALL-UNNAMED -cp "$work/classes:$lib/classes:$lib/lib/*" "$@"
}
wait_line() { # FILE TEXT
  for _ in $(seq 6000); do ! grep -q "$2" "$1" 2> /dev/null || return 0; sleep 0.01; done
  cat "$1" >&2; return 1
}
printf 'bindAddress=127.0.0.1\nlistenPort=%s\nrocketmqHome=%s\nkvConfigPath=%s/kv.json\n' "$ns" "$work" "$work" > "$work/namesrv.conf"
cat > "$work/broker.conf" <<C
brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
namesrvAddr=127.0.0.1:$ns
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
bindAddress=127.0.0.1
listenPort=$broker
storePathRootDir=$work/store
storePathCommitLog=$work/store/commitlog
mappedFileSizeCommitLog=67108864
mappedFileSizeConsumeQueue=60000
mappedFileSizeTimerLog=1048576
maxHashSlotNum=20000
maxIndexNum=80000
diskMaxUsedSpaceRatio=95
transactionCheckInterval=10000
transactionTimeOut=20000
C
if [ "$kind" = java ]; then
  (java_with 128m org.apache.rocketmq.namesrv.NamesrvStartup -c "$work/namesrv.conf") > "$work/namesrv.out" 2>&1 &
  pids="$pids $!"
  wait_line "$work/namesrv.out" "boot success"
  (java_with 512m org.apache.rocketmq.broker.BrokerStartup -c "$work/broker.conf") > "$work/broker.out" 2>&1 &
  pids="$pids $!"
  wait_line "$work/broker.out" "boot success"
else
  "$RMQ" namesrv start -c "$work/namesrv.conf" > "$work/namesrv.out" 2>&1 &
  pids="$pids $!"
  "$RMQ" broker start -c "$work/broker.conf" > "$work/broker.out" 2>&1 &
  pids="$pids $!"
fi
for _ in $(seq 300); do "$RMQ" broker list -o json 2> /dev/null | grep -q '"ok"' && break; sleep 0.2; done
"$RMQ" topic create Load --queues 16 --yes > /dev/null
javac -nowarn -proc:none --release 11 -cp "$lib/lib/*" -d "$work/classes" "$here/ScaleLoad.java"
if [ "$way" = rmq ]; then send=150 total=420; else send=90 total=230; fi
(java_with 256m ScaleLoad "127.0.0.1:$ns" Load "$send" "$total") > "$work/load.out" 2>&1 &
load=$!
pids="$pids $load"
wait_line "$work/load.out" "^sending"
sleep 25
began=$(date +%s)
if [ "$way" = rmq ]; then
  "$RMQ" topic scale Load --to 8 --yes --deadline 6m > "$work/scale.out" 2> "$work/scale.err" || echo "scale ended with $?"
  sed 's/^/  /' "$work/scale.err" "$work/scale.out"
else
  "$RMQ" topic update Load --write-queues 8 --force --yes > /dev/null
  sleep 35 # producers fetch routes every 30 s
  for _ in $(seq 60); do
    left=$("$RMQ" group lag CG_LOAD_1 CG_LOAD_2 --topic Load --by queue --filter 'queue>=8' -o csv --no-headers --columns lag | awk '{ n += $1 } END { print n + 0 }')
    [ "$left" -gt 0 ] || break
    sleep 1
  done
  "$RMQ" topic update Load --read-queues 8 --force --yes > /dev/null
fi
echo "$way on $kind: 8 queues after $(($(date +%s) - began)) s"
wait "$load" || :
cat "$work/load.out"
"$RMQ" topic get Load
