# Sourced by start.sh and compare.sh: directories, ports and the two servers, all on the loopback.
# Needs `cargo build --release --example send_load --bin rmq` and the Java peers (tests/java/fetch.sh).
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$repo/target}
RMQ=${RMQ:-$target/release/rmq}
LOAD=${LOAD:-$target/release/examples/send_load}
JAVA_DIR=${RMQ_JAVA_CACHE:-$HOME/.cache/rmq-java}
HEAP=${HEAP:-1g}
our_ns=${OUR_NS:-10876} our_broker=${OUR_BROKER:-10916}
java_ns=${JAVA_NS:-11876} java_broker=${JAVA_BROKER:-11916}
for file in "$RMQ" "$LOAD"; do
  [ -x "$file" ] || { echo "no $file: cargo build --release --example send_load --bin rmq" >&2; exit 2; }
done
sh "$repo/tests/java/fetch.sh" "$JAVA_DIR"
work=$(mktemp -d "${TMPDIR:-/tmp}/rmq-bench.XXXXXX")
pids=
cleanup() {
  for pid in $pids; do kill -9 "$pid" 2> /dev/null || :; done
  wait 2> /dev/null || :
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# wait_line FILE TEXT: until the text is in the file, 60 s at most.
wait_line() {
  for _ in $(seq 6000); do
    ! grep -q "$2" "$1" 2> /dev/null || return 0
    sleep 0.01
  done
  cat "$1" >&2
  return 1
}

java_in() { # java_in DIR CLASS ARGS...: the options of a server, without a cap on the compiler
  local dir=$1
  shift
  mkdir -p "$dir/home" "$dir/tmp"
  ROCKETMQ_HOME=$dir exec java -XX:+UseG1GC "-Xmx$HEAP" -XX:MaxDirectMemorySize=1g "-Duser.home=$dir/home" "-Djava.io.tmpdir=$dir/tmp" \
    -Dtls.test.mode.enable=false -Dtls.server.mode=disabled "-Drocketmq.client.logRoot=$dir/home/logs" \
    "-Drmq.logback.configurationFile=file:$repo/tests/java/logback.xml" "-Drmq.log.file=$dir/java.log" \
    --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED --add-exports=java.base/sun.nio.ch=ALL-UNNAMED \
    --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED \
    --add-opens=java.base/jdk.internal.misc=ALL-UNNAMED -cp "$JAVA_DIR/classes:$JAVA_DIR/lib/*" "$@"
}

start_java_namesrv() { # DIR
  mkdir -p "$1"
  printf 'bindAddress=127.0.0.1\nlistenPort=%s\nrocketmqHome=%s\nkvConfigPath=%s/kv.json\n' "$java_ns" "$1" "$1" > "$1/namesrv.conf"
  java_in "$1" org.apache.rocketmq.namesrv.NamesrvStartup -c "$1/namesrv.conf" > "$1/namesrv.out" 2>&1 &
  java_ns_pid=$!
  pids="$pids $java_ns_pid"
  wait_line "$1/namesrv.out" "boot success"
}

start_java_broker() { # DIR: sets java_pid, does not wait
  mkdir -p "$1"
  cat > "$1/broker.conf" <<C
brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
namesrvAddr=127.0.0.1:$java_ns
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
bindAddress=127.0.0.1
listenPort=$java_broker
storePathRootDir=$1/store
storePathCommitLog=$1/store/commitlog
diskMaxUsedSpaceRatio=95
C
  java_in "$1" org.apache.rocketmq.broker.BrokerStartup -c "$1/broker.conf" > "$1/broker.out" 2>&1 &
  java_pid=$!
  pids="$pids $java_pid"
}

start_rmq() { # DIR [NAMESRV_PORT BROKER_PORT]: sets rmq_pid, does not wait
  mkdir -p "$1"
  HOME=$1 "$RMQ" standalone --store "$1/store" --namesrv-port "${2:-$our_ns}" --broker-port "${3:-$our_broker}" --log-dir "$1/logs" \
    --set diskMaxUsedSpaceRatio=95 2> "$1/rmq.err" &
  rmq_pid=$!
  pids="$pids $rmq_pid"
}

stop() { # PID
  kill -9 "$1" 2> /dev/null || :
  wait "$1" 2> /dev/null || :
}

# CPU time of all threads of a process so far, in microseconds.
cpu_us() { cat /proc/"$1"/task/*/schedstat 2> /dev/null | awk '{ sum += $1 } END { printf "%d\n", sum / 1000 }'; }

number() { # JSON KEY
  printf '%s\n' "$1" | sed -n "s/.*\"$2\":\([0-9.]*\).*/\1/p"
}

median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (a > 0) printf "%.1f", b / a; else print "-" }'; }
