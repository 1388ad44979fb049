#!/usr/bin/env bash
# recovery.sh [GIB...=1 4 16]: how long a broker takes to open after a kill, by the size of the log. The store is filled with
# messages of BODY (4096) bytes by examples/store_load.rs, which ends without closing it, as kill -9 would. Each size is
# opened twice, with the page cache dropped (that needs root) and warm: once with the checkpoint that the run left, once
# without one, so that the whole log is read. Needs as many GiB of disk as the largest size.
# Needs `cargo build --release --bin rmq --example store_load`. Ports: BROKER (10946), NS (10906).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
bin=$target/release
broker=${BROKER:-10946} ns=${NS:-10906} body=${BODY:-4096}
work=$(mktemp -d "${TMPDIR:-/tmp}/rmq-recovery.XXXXXX")
pid=
cleanup() {
  [ -z "$pid" ] || kill -9 "$pid" 2> /dev/null || :
  wait 2> /dev/null || :
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
drop() { sync; [ ! -w /proc/sys/vm/drop_caches ] || echo 3 > /proc/sys/vm/drop_caches; }
# CPU time of a process so far, and the time that its threads waited for a CPU that others had.
cpu() { awk '{ used += $1; waited += $2 } END { printf "CPU %d ms, waited for one %d ms", used / 1e6, waited / 1e6 }' /proc/"$1"/task/*/schedstat; }
open() { # TEXT
  local begin
  begin=$(date +%s%N)
  HOME=$work "$bin/rmq" standalone --store "$work/store" --namesrv-port "$ns" --broker-port "$broker" --log-dir "$work/logs" \
    --set diskMaxUsedSpaceRatio=95 --set fileReservedTime=100000 2> "$work/err" &
  pid=$!
  for _ in $(seq 60000); do
    if (exec 3<> "/dev/tcp/127.0.0.1/$broker") 2> /dev/null; then
      echo "$size GiB, $1: open after $((($(date +%s%N) - begin) / 1000000)) ms, $(cpu "$pid")"
      kill -9 "$pid"
      wait "$pid" 2> /dev/null || :
      pid=
      return 0
    fi
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.01
  done
  cat "$work/err" >&2
  return 1
}
for size in "${@:-1 4 16}"; do
  for size in $size; do
    "$bin/examples/store_load" "$work/store" --messages $((size * 1073741824 / (body + 96))) --body "$body" --queues 8 --batch 8 --kill
    drop
    open "killed, checkpoint of the run, cold"
    open "killed again, warm"
    rm -f "$work/store/checkpoint"
    drop
    open "killed, no checkpoint, the whole log is read, cold"
    rm -rf "$work/store"
  done
done
