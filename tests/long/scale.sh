#!/usr/bin/env bash
# scale.sh rmq|book [java|own]: a topic goes from 16 to 8 queues under Java producers and consumers, with delayed, timed and half
# messages on their way; prints what each group never got. `rmq` is `rmq topic scale`, `book` is the way of the books: write 8,
# wait until queues 8 to 15 have no backlog, read 8. The cluster is Java 5.3.3 (java, the default) or rmq's own (own). About 4 minutes.
set -eu
way=${1:?rmq or book} kind=${2:-java}
. "$(dirname "$0")/cluster.sh"
start_broker broker-a "$broker"
"$RMQ" topic create Load --queues 16 --yes > /dev/null
if [ "$way" = rmq ]; then start_load Load 150 420; else start_load Load 90 230; fi
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
