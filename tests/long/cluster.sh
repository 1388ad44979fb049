# Sourced by scale.sh and drain.sh: a name server and brokers, Java's or our own, on the loopback. `kind` is java or own.
# Needs `cargo build --bin rmq` and the Java peers (tests/java/fetch.sh). RMQ=path names the binary.
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
RMQ=${RMQ:-${CARGO_TARGET_DIR:-$repo/target}/debug/rmq}
lib=${RMQ_JAVA_CACHE:-$HOME/.cache/rmq-java}
ns=${NS_PORT:-21876} broker=${BROKER_PORT:-21911}
sh "$repo/tests/java/fetch.sh" "$lib"
work=$(mktemp -d "${TMPDIR:-/tmp}/rmq-long.XXXXXX")
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
if [ "$kind" = java ]; then
  (java_with 128m org.apache.rocketmq.namesrv.NamesrvStartup -c "$work/namesrv.conf") > "$work/namesrv.out" 2>&1 &
  pids="$pids $!"
  wait_line "$work/namesrv.out" "boot success"
else
  "$RMQ" namesrv start -c "$work/namesrv.conf" > "$work/namesrv.out" 2>&1 &
  pids="$pids $!"
fi

start_broker() { # NAME PORT
  cat > "$work/$1.conf" <<C
brokerClusterName=DefaultCluster
brokerName=$1
brokerId=0
namesrvAddr=127.0.0.1:$ns
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
bindAddress=127.0.0.1
listenPort=$2
storePathRootDir=$work/$1
storePathCommitLog=$work/$1/commitlog
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
    (java_with 512m org.apache.rocketmq.broker.BrokerStartup -c "$work/$1.conf") > "$work/$1.out" 2>&1 &
    pids="$pids $!"
    wait_line "$work/$1.out" "boot success"
  else
    "$RMQ" broker start -c "$work/$1.conf" > "$work/$1.out" 2>&1 &
    pids="$pids $!"
  fi
  for _ in $(seq 300); do
    ! "$RMQ" broker list -o csv --no-headers --columns name,state 2> /dev/null | grep -q "^$1,ok" || return 0
    sleep 0.2
  done
  cat "$work/$1.out" >&2
  return 1
}

start_load() { # TOPIC SEND_S TOTAL_S: returns when messages flow; sets load
  javac -nowarn -proc:none --release 11 -cp "$lib/lib/*" -d "$work/classes" "$here/ScaleLoad.java"
  (java_with 256m ScaleLoad "127.0.0.1:$ns" "$@") > "$work/load.out" 2>&1 &
  load=$!
  pids="$pids $load"
  wait_line "$work/load.out" "^sending"
}
