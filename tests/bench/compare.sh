#!/usr/bin/env bash
# compare.sh [ROUNDS=3]: CPU time of the broker process per 1 KiB message and its anonymous memory, `rmq standalone` (both
# roles) and the Java 5.3.3 broker (without its name server) in alternating rounds. Both run all the time, both are warm,
# 64 sends in flight on one connection, default store settings, heap HEAP (1g). Options: COUNT=200000 WARM=20000 SIZE=1024.
set -euo pipefail
. "$(dirname "$0")/common.sh"
rounds=${1:-3}

start_java_namesrv "$work/java"
start_java_broker "$work/java"
start_rmq "$work/rmq"
wait_line "$work/java/broker.out" "boot success"

load() { # BROKER_PORT PID COUNT
  "$LOAD" "127.0.0.1:$1" --size "${SIZE:-1024}" --in-flight 64 --warm "${WARM:-20000}" --count "$3" --pid "$2"
}
# The JIT compiler is done after some hundred thousand messages.
load "$java_broker" "$java_pid" 200000 > "$work/warm-java.json"
load "$our_broker" "$rmq_pid" 200000 > "$work/warm-rmq.json"
for round in $(seq "$rounds"); do
  for side in rmq java; do
    if [ $side = rmq ]; then out=$(load "$our_broker" "$rmq_pid" "${COUNT:-200000}"); else out=$(load "$java_broker" "$java_pid" "${COUNT:-200000}"); fi
    echo "round $round $side $out"
    for key in cpu_us_per_message per_second p99_us rss_anon_kib refused; do
      number "$out" $key >> "$work/$side.$key"
    done
  done
done
mid() { median < "$work/$1.$2"; }
echo
printf '%-36s %12s %12s %8s\n' "median of $rounds rounds" rmq java "java/rmq"
for row in "CPU us per message:cpu_us_per_message" "anonymous memory KiB:rss_anon_kib" "sends per second:per_second" "p99 us:p99_us"; do
  key=${row#*:}
  printf '%-36s %12s %12s %8s\n' "${row%:*}" "$(mid rmq $key)" "$(mid java $key)" "$(ratio "$(mid rmq $key)" "$(mid java $key)")"
done
