#!/usr/bin/env bash
# start.sh [ROUNDS=5]: from exec to the first stored message.
# 1. `rmq standalone` (name server and broker) and the Java broker (its name server already runs and is not counted): time
#    until a message sent straight to the broker's port is acknowledged, and the CPU time of the process up to then.
# 2. `rmq standalone` and a Java producer that runs already (its JVM has sent to another cluster, so that the JVM's own
#    first steps are not measured): time until its first message is acknowledged.
set -euo pipefail
. "$(dirname "$0")/common.sh"
rounds=${1:-5}

now() { date +%s%N; }
first_stored() { # BROKER_PORT
  for _ in $(seq 20000); do
    ! "$LOAD" "127.0.0.1:$1" --warm 0 --in-flight 1 --count 1 > /dev/null 2>&1 || return 0
    sleep 0.002
  done
  return 1
}
one() { # SIDE BEGIN_NS PORT PID
  first_stored "$3"
  local end cpu
  end=$(now)
  cpu=$(cpu_us "$4")
  echo $((($end - $2) / 1000)) >> "$work/$1.us"
  echo "$cpu" >> "$work/$1.cpu"
  echo "$1: first stored message $((($end - $2) / 1000000)) ms after exec, CPU $((cpu / 1000)) ms"
}

start_java_namesrv "$work/java-ns"
for round in $(seq "$rounds"); do
  begin=$(now)
  start_rmq "$work/rmq-$round"
  one rmq "$begin" "$our_broker" "$rmq_pid"
  stop "$rmq_pid"
  begin=$(now)
  start_java_broker "$work/java-$round"
  one java "$begin" "$java_broker" "$java_pid"
  stop "$java_pid"
done
stop "$java_ns_pid"

mkfifo "$work/go"
warm_ns=$((our_ns + 10))
start_rmq "$work/warm" "$warm_ns" $((our_broker + 10))
for round in $(seq "$rounds"); do
  out=$work/first-$round.out
  java_in "$work/client" FirstSend "127.0.0.1:$our_ns" First "warm=127.0.0.1:$warm_ns" < "$work/go" > "$out" 2> "$work/client.err" &
  client=$!
  pids="$pids $client"
  exec 7> "$work/go"
  wait_line "$out" running
  begin=$(now)
  start_rmq "$work/rmq-client-$round"
  echo go >&7
  wait "$client" || { cat "$work/client.err" >&2; exit 1; }
  exec 7>&-
  end=$(tail -1 "$out")
  echo $((($end - $begin) / 1000)) >> "$work/client.us"
  echo "a running Java client's first message is acknowledged $((($end - $begin) / 1000000)) ms after the exec of rmq standalone"
  stop "$rmq_pid"
done

mid() { median < "$work/$1"; }
echo
printf '%-36s %12s %12s %8s\n' "median of $rounds rounds" rmq java "java/rmq"
printf '%-36s %12s %12s %8s\n' "us from exec to first stored" "$(mid rmq.us)" "$(mid java.us)" "$(ratio "$(mid rmq.us)" "$(mid java.us)")"
printf '%-36s %12s %12s %8s\n' "CPU us up to then" "$(mid rmq.cpu)" "$(mid java.cpu)" "$(ratio "$(mid rmq.cpu)" "$(mid java.cpu)")"
printf '%-36s %12s\n' "us to a running Java client's ack" "$(mid client.us)"
