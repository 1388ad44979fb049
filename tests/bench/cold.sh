#!/usr/bin/env bash
# cold.sh: what a consumer of old data does to everybody else. A store of MESSAGES (12000000) messages of 1 KiB is made,
# more than the reader gets through, the page cache dropped (that needs root), a broker started on it; then paced sends and
# pulls of the newest messages, first alone, then beside a reader of eight queues that pulls from the begin at full speed,
# at nice 19: in earnest it has a machine of its own. Prints p99 of both and the ratios.
# Needs `cargo build --release --bin rmq --example store_load --example mixed_load`. Ports: BROKER (10926), NS (10886).
set -euo pipefail
ports="10926 10886" seconds=${SECONDS_EACH:-15} rate=${RATE:-500} rounds=${ROUNDS:-3}
. "$(dirname "$0")/rmq.sh"
warm() { # until sends work
  for _ in $(seq 1000); do
    ! run send --topic hot --rate 1000 --seconds 1 > "$work/first" 2> /dev/null || return 0
    sleep 0.05
  done
  cat "$work/err" >&2
  return 1
}
stop() { kill "$pid"; wait "$pid" || :; pid=; }
pair() { # NAME: sends and hot pulls together
  run send --topic hot --rate "$rate" --seconds "$seconds" > "$work/send" &
  local one=$!
  run hot --topic hot --rate "$rate" --seconds "$seconds" > "$work/hot"
  wait $one
  for kind in send hot; do
    echo "  $1 $(cat "$work/$kind")"
    number "$(cat "$work/$kind")" p99_us >> "$work/$1.$kind"
  done
}
"$bin/examples/store_load" "$work/store" --messages "${MESSAGES:-12000000}" --body 1024 --queues 8
for round in $(seq "$rounds"); do
  sync
  echo 3 > /proc/sys/vm/drop_caches
  launch "$work/store"
  warm
  echo "round $round"
  pair alone
  nice -n 19 "$bin/examples/mixed_load" "127.0.0.1:$broker" cold --topic load0 --queues 8 --seconds $((seconds + 2)) > "$work/cold" &
  reader=$!
  sleep 1
  pair beside
  wait $reader
  echo "  reader $(cat "$work/cold")"
  grep -E 'RssAnon|RssFile|Threads' "/proc/$pid/status" | tr -s '\t\n ' ' '
  echo
  stop
done
for kind in send hot; do
  a=$(median < "$work/alone.$kind") b=$(median < "$work/beside.$kind")
  printf '%-5s p99 alone %6s us, beside a cold reader %6s us, ratio %s\n' "$kind" "$a" "$b" \
    "$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.2f", b / a }')"
done
