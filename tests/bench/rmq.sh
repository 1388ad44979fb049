# Sourced by backlog.sh, cold.sh and recovery.sh: directories, and one `rmq standalone` on the loopback. They set `ports`,
# broker and name server, first. Needs `cargo build --release --bin rmq --example store_load --example mixed_load`.
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
bin=$target/release
broker=${BROKER:-${ports% *}} ns=${NS:-${ports#* }}
work=$(mktemp -d "${TMPDIR:-/tmp}/rmq-bench.XXXXXX")
pid=
cleanup() {
  [ -z "$pid" ] || kill -9 "$pid" 2> /dev/null || :
  wait 2> /dev/null || :
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

drop_cache() { sync; [ ! -w /proc/sys/vm/drop_caches ] || echo 3 > /proc/sys/vm/drop_caches; }
run() { "$bin/examples/mixed_load" "127.0.0.1:$broker" "$@"; }
number() { printf '%s\n' "$1" | sed -n "s/.*\"$2\":\([0-9.]*\).*/\1/p"; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
# CPU time of a process so far, and the time that its threads waited for a CPU that others had.
cpu() { awk '{ used += $1; waited += $2 } END { printf "CPU %d ms, waited for one %d ms", used / 1e6, waited / 1e6 }' /proc/"$1"/task/*/schedstat; }

launch() { # STORE: sets pid, does not wait
  HOME=$work "$bin/rmq" standalone --store "$1" --namesrv-port "$ns" --broker-port "$broker" --log-dir "$work/logs" \
    --set diskMaxUsedSpaceRatio=95 --set fileReservedTime=100000 2> "$work/err" &
  pid=$!
}

start() { # STORE: sets pid, prints how long until the port answers
  local begin
  begin=$(date +%s%N)
  launch "$1"
  for _ in $(seq 60000); do
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
