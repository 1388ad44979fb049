#!/usr/bin/env bash
# cli.sh [RUNS=50]: what a command of the command line costs, on a Java name server and broker with 20 topics and 20 groups.
# 1. One-request commands and `--help`: median and worst wall time, median CPU time and the largest resident set.
#    Limits: 20 ms wall, 10 ms CPU, 20 MiB for one request; 10 ms wall for `--help`. The last column says which does not hold.
# 2. `rmq topic list` against `mqadmin topicList` (a JVM each) in the same run: both medians and the ratio.
# Nothing else may run meanwhile: times are those of processes.
set -euo pipefail
LOAD=${LOAD:-/bin/true} # nothing is sent
. "$(dirname "$0")/common.sh"
runs=${1:-50} old_runs=${OLD_RUNS:-5}
command -v python3 > /dev/null || { echo "python3 is needed to measure processes" >&2; exit 2; }

start_java_namesrv "$work/java-ns"
start_java_broker "$work/java"
wait_line "$work/java/broker.out" "boot success"
export HOME=$work/home RMQ_NAMESRV=127.0.0.1:$java_ns NO_COLOR=1
mkdir -p "$HOME"
for _ in $(seq 300); do ! "$RMQ" broker list -o csv --no-headers 2> /dev/null | grep -q ,ok || break; sleep 0.1; done
for i in $(seq 20); do
  "$RMQ" topic create "Topic$i" --queues 4 --yes > /dev/null
  "$RMQ" group create "group$i" --yes > /dev/null
done

# measure NAME RUNS WALL_LIMIT_MS CPU_LIMIT_MS COMMAND...: one line
measure() {
  python3 - "$@" << 'PY'
import os, subprocess, sys, time
name, runs, wall_limit, cpu_limit, command = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), sys.argv[5:]
walls, cpus, most = [], [], 0
null = os.open(os.devnull, os.O_RDWR)
for _ in range(runs):
    begin = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, os.environ,
                          file_actions=[(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)])
    _, status, usage = os.wait4(pid, 0)
    walls.append((time.perf_counter() - begin) * 1000)
    cpus.append((usage.ru_utime + usage.ru_stime) * 1000)
    most = max(most, usage.ru_maxrss / 1024)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
walls.sort(); cpus.sort()
wall, cpu = walls[runs // 2], cpus[runs // 2]
over = [text for text, bad in (("wall", wall > wall_limit), ("cpu", cpu > cpu_limit), ("rss", most > 20 and wall_limit < 1000)) if bad]
print(f"{name:28} wall {wall:7.1f} ms (worst {walls[-1]:7.1f})  cpu {cpu:7.1f} ms  rss {most:5.1f} MiB  {'OVER ' + ' '.join(over) if over else 'ok'}")
with open(os.environ.get("MEDIANS", os.devnull), "a") as out:
    print(name, wall, file=out)
PY
}

export MEDIANS=$work/medians
measure "--help" "$runs" 10 10 "$RMQ" --help
measure "topic create --help" "$runs" 10 10 "$RMQ" topic create --help
measure "topic list" "$runs" 20 10 "$RMQ" topic list
measure "topic get" "$runs" 20 10 "$RMQ" topic get Topic1
measure "topic route" "$runs" 20 10 "$RMQ" topic route Topic1
measure "topic status" "$runs" 20 10 "$RMQ" topic status Topic1
measure "broker list" "$runs" 20 10 "$RMQ" broker list
measure "broker get-config" "$runs" 20 10 "$RMQ" broker get-config broker-a
measure "cluster list" "$runs" 20 10 "$RMQ" cluster list
measure "group list" "$runs" 20 10 "$RMQ" group list
measure "group get" "$runs" 20 10 "$RMQ" group get group1
measure "namesrv get-config" "$runs" 20 10 "$RMQ" namesrv get-config
measure "kv list" "$runs" 20 10 "$RMQ" kv list ORDER_TOPIC_CONFIG
measure "mqadmin topicList (rmq)" "$runs" 20 10 "$RMQ" mqadmin --no-hint topicList
measure "mqadmin topicList (stock)" "$old_runs" 100000 100000 \
  java "-Xmx256m" "-Duser.home=$work/home" -Dtls.server.mode=disabled -Dtls.test.mode.enable=false "-Drocketmq.client.logRoot=$work/home/logs" \
  "-Drmq.logback.configurationFile=file:$repo/tests/java/logback.xml" "-Drmq.log.file=$work/mqadmin.log" \
  -cp "$JAVA_DIR/lib/*" org.apache.rocketmq.tools.command.MQAdminStartup topicList -n "$RMQ_NAMESRV"
awk '/^topic list /{ ours = $3 } /\(stock\)/{ old = $NF } END { printf "rmq topic list is %.0f times as fast as mqadmin topicList (%.1f ms, %.0f ms)\n", old / ours, ours, old }' "$MEDIANS"
