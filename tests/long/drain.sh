#!/usr/bin/env bash
# drain.sh [java|own]: `rmq broker drain` of one of two brokers under Java producers and consumers, then `undrain`. Prints what the
# drain said, what producers saw and what consumers never got. The cluster is Java 5.3.3 (java, the default) or rmq's own (own).
set -eu
kind=${1:-java}
. "$(dirname "$0")/cluster.sh"
start_broker broker-a "$broker"
start_broker broker-b $((broker + 20))
"$RMQ" topic create Load --queues 8 --yes > /dev/null
start_load Load 240 420
sleep 25
began=$(date +%s)
"$RMQ" broker drain broker-b --yes --deadline 6m > "$work/drain.out" 2> "$work/drain.err" || echo "drain ended with $?"
sed 's/^/  /' "$work/drain.err" "$work/drain.out"
echo "drain on $kind took $(($(date +%s) - began)) s"
ends() { "$RMQ" topic status Load --broker broker-b -o csv --no-headers --columns max | awk '{ n += $1 } END { print n + 0 }'; }
closed=$(ends)
"$RMQ" broker undrain broker-b --yes | sed 's/^/  /'
for _ in $(seq 60); do [ "$(ends)" -le "$closed" ] || break; sleep 1; done
echo "stored on broker-b: $closed when it was safe, $(ends) after undrain"
wait "$load" || :
cat "$work/load.out"
