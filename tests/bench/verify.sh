#!/usr/bin/env bash
# verify.sh [DIR]: `rmq store verify --full` against reading the same files and computing CRC-32 (examples/read_crc.rs),
# both in one run, warm and with the page cache dropped (that needs root). Without DIR a store is made: MESSAGES (4000000)
# messages of BODY (1024) bytes with a key each, in segments of 256 MiB. Prints times, the ratio, and the most memory.
# Needs `cargo build --release --bin rmq --example store_load --example read_crc`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
bin=$target/release
rounds=${ROUNDS:-3}
work=$(mktemp -d "${TMPDIR:-/tmp}/rmq-verify.XXXXXX")
trap 'rm -rf "$work"' EXIT
dir=${1:-}
if [ -z "$dir" ]; then
  dir=$work/store
  "$bin/examples/store_load" "$dir" --messages "${MESSAGES:-4000000}" --body "${BODY:-1024}" --keys --segment 268435456
fi
drop() { sync; echo 3 > /proc/sys/vm/drop_caches; }
can_drop=no
if [ "$(id -u)" = 0 ] && [ -w /proc/sys/vm/drop_caches ]; then can_drop=yes; fi
ms() { # COMMAND...: milliseconds it takes
  local begin end
  begin=$(date +%s%N)
  "$@" > "$work/out" 2> "$work/err" || { cat "$work/out" "$work/err" >&2; return 1; }
  end=$(date +%s%N)
  echo $(((end - begin) / 1000000))
}
verify() { "$bin/rmq" store verify "$dir" --full --state "$work/state.jsonl" -o json; }
plain() { "$bin/examples/read_crc" "$dir"; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
round() { # NAME
  for _ in $(seq "$rounds"); do
    for what in plain verify; do
      [ "$1" != cold ] || drop
      ms $what >> "$work/$1.$what"
    done
  done
  local a b
  a=$(median < "$work/$1.plain") b=$(median < "$work/$1.verify")
  printf '%-5s read + CRC %6s ms, verify --full %6s ms, ratio %s\n' "$1" "$a" "$b" \
    "$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.2f", b / a }')"
}
plain
[ $can_drop = no ] || round cold
plain > /dev/null
round warm
"$bin/rmq" store verify "$dir" --full --state "$work/state.jsonl" > /dev/null 2>&1 &
pid=$!
most=0
while kill -0 $pid 2> /dev/null; do
  now=$(awk '/VmHWM/ { print $2 }' /proc/$pid/status 2> /dev/null || echo 0)
  [ "${now:-0}" -le "$most" ] || most=$now
  sleep 0.02
done
wait $pid
echo "most memory of verify --full: $((most / 1024)) MiB resident, mapped files included"
