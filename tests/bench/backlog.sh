#!/usr/bin/env bash
# backlog.sh: a backlog of MESSAGES (100000000) small messages (BODY 16 bytes, 8 queues), loaded past the network by
# examples/store_load.rs; then the times of an open after a clean stop, pulls from the start, and the broker's memory.
# After that a sparse store of 100 GiB after a clean stop, and QUEUES (10000) queues: open files, memory, and the time
# from an append to a held pull while sends go over all of them. Needs 15 GB of disk; all of it is removed.
# Needs `cargo build --release --bin rmq --example store_load --example mixed_load`. Ports: BROKER (10936), NS (10896).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
bin=$target/release
broker=${BROKER:-10936} ns=${NS:-10896} queues=${QUEUES:-10000}
work=$(mktemp -d "${TMPDIR:-/tmp}/rmq-backlog.XXXXXX")
pid=
cleanup() {
  [ -z "$pid" ] || kill -9 "$pid" 2> /dev/null || :
  wait 2> /dev/null || :
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
run() { "$bin/examples/mixed_load" "127.0.0.1:$broker" "$@"; }
# CPU time of a process so far, and the time that its threads waited for a CPU that others had.
cpu() { awk '{ used += $1; waited += $2 } END { printf "CPU %d ms, waited for one %d ms", used / 1e6, waited / 1e6 }' /proc/"$1"/task/*/schedstat; }
start() { # STORE: sets pid, prints how long until the port answers
  local begin
  begin=$(date +%s%N)
  HOME=$work "$bin/rmq" standalone --store "$1" --namesrv-port "$ns" --broker-port "$broker" --log-dir "$work/logs" \
    --set diskMaxUsedSpaceRatio=95 --set fileReservedTime=100000 2> "$work/err" &
  pid=$!
  for _ in $(seq 6000); do
    if (exec 3<> "/dev/tcp/127.0.0.1/$broker") 2> /dev/null; then
      echo "open after $((($(date +%s%N) - begin) / 1000000)) ms, $(cpu "$pid")"
      return 0
    fi
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.01
  done
  cat "$work/err" >&2
  return 1
}
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
drop() { sync; [ ! -w /proc/sys/vm/drop_caches ] || echo 3 > /proc/sys/vm/drop_caches; }

echo "== ${MESSAGES:-100000000} messages"
"$bin/examples/store_load" "$work/big" --messages "${MESSAGES:-100000000}" --body "${BODY:-16}" --queues 8
du -sh "$work/big"
drop
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
drop
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
