#!/usr/bin/env bash
# backlog.sh: a backlog of MESSAGES (100000000) small messages (BODY 16 bytes, 8 queues), loaded past the network by
# examples/store_load.rs; then the times of an open after a clean stop, pulls from the start, and the broker's memory.
# After that a sparse store of 100 GiB after a clean stop, and QUEUES (10000) queues: open files, memory, and the time
# from an append to a held pull while sends go over all of them. Needs 15 GB of disk; all of it is removed.
# Needs `cargo build --release --bin rmq --example store_load --example mixed_load`. Ports: BROKER (10936), NS (10896).
set -euo pipefail
ports="10936 10896" queues=${QUEUES:-10000}
. "$(dirname "$0")/rmq.sh"
memory() {
  grep -E 'VmHWM|RssAnon|RssFile|Threads' "/proc/$pid/status" | tr -s '\t\n ' ' '
  echo "open files $(ls /proc/$pid/fd | wc -l), maps $(wc -l < /proc/$pid/maps)"
}
stop() {
  local begin
  begin=$(date +%s%N)
  kill "$pid"
  wait "$pid" || :
  pid=
  echo "clean stop in $((($(date +%s%N) - begin) / 1000000)) ms"
}

echo "== ${MESSAGES:-100000000} messages"
"$bin/examples/store_load" "$work/big" --messages "${MESSAGES:-100000000}" --body "${BODY:-16}" --queues 8
du -sh "$work/big"
drop_cache
start "$work/big"
memory
run cold --topic load0 --queues 8 --seconds 10
memory
run visible --topic now --queues 8 --rate 500 --seconds 5
stop
start "$work/big"
stop
if [ -n "${VERIFY:-1}" ]; then
  begin=$(date +%s%N)
  "$bin/rmq" store verify "$work/big" --full --state "$work/state" 2>&1 | tail -3
  echo "verify --full in $((($(date +%s%N) - begin) / 1000000)) ms"
fi
rm -rf "$work/big"

echo "== 100 GiB, sparse, clean stop"
"$bin/examples/store_load" "$work/sparse" --sparse 99 --messages 1000 --body 1000 --queues 1
ls "$work/sparse/commitlog" | wc -l
drop_cache
start "$work/sparse"
memory
stop
begin=$(date +%s%N)
"$bin/rmq" store info "$work/sparse" > /dev/null
echo "store info in $((($(date +%s%N) - begin) / 1000000)) ms"
rm -rf "$work/sparse"

echo "== $queues queues"
start "$work/many"
run spread --topic many --queues "$queues" --rate 2000 --seconds $((queues / 1000 + 5)) --size 100
memory
run spread --topic many --queues "$queues" --rate 1000 --seconds 15 --size 100 > "$work/spread" &
other=$!
sleep 2
run visible --topic now --queues 8 --rate 200 --seconds 10
wait $other
cat "$work/spread"
memory
stop
start "$work/many"
memory
stop
