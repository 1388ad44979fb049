#!/usr/bin/env bash
# recovery.sh [GIB...=1 4 16]: how long a broker takes to open after a kill, by the size of the log. The store is filled with
# messages of BODY (4096) bytes by examples/store_load.rs, which ends without closing it, as kill -9 would. Each size is
# opened twice, with the page cache dropped (that needs root) and warm: once with the checkpoint that the run left, once
# without one, so that the whole log is read. Needs as many GiB of disk as the largest size.
# Needs `cargo build --release --bin rmq --example store_load`. Ports: BROKER (10946), NS (10906).
set -euo pipefail
ports="10946 10906" body=${BODY:-4096}
. "$(dirname "$0")/rmq.sh"
open() { # TEXT
  printf '%s GiB, %s: ' "$size" "$1"
  start "$work/store"
  sed -n 's/.* end=\([0-9]*\) walked_from=\([0-9]*\).*/\1 \2/p' "$work/err" | awk '{ printf "    %d MiB of log were walked\n", ($1 - $2) / 1048576 }'
  kill -9 "$pid"
  wait "$pid" 2> /dev/null || :
  pid=
}
for size in "${@:-1 4 16}"; do
  for size in $size; do
    "$bin/examples/store_load" "$work/store" --messages $((size * 1073741824 / (body + 96))) --body "$body" --queues 8 --batch 8 --kill
    drop_cache
    open "killed, checkpoint of the run, cold"
    open "killed again, warm"
    rm -f "$work/store/checkpoint"
    drop_cache
    open "killed, no checkpoint, the whole log is read, cold"
    rm -rf "$work/store"
  done
done
