#!/bin/sh
# How late messages with a time are delivered, and what waiting ones cost: rmq and Apache's broker 5.3.3, one after the
# other on this machine.
#
#   timer.sh [COUNT [RATE [PENDING]]]      100,000 messages at 10,000 a second, a million pending
#
# Needs `cargo build --release --example timer_load --bin rmq`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
LOAD=${LOAD:-$target/release/examples/timer_load}
. "$here/common.sh"
count=${1:-100000} rate=${2:-10000} pending=${3:-1000000}
ahead=$((10 + count / 4000))

start_rmq "$work/rmq"
wait_line "$work/rmq/rmq.err" "broker registered"
printf 'rmq    '
"$LOAD" "127.0.0.1:$our_broker" --count "$count" --rate "$rate" --ahead "$ahead" --pending "$pending" --pid "$rmq_pid"
stop "$rmq_pid"

start_java_namesrv "$work/java-ns"
start_java_broker "$work/java"
wait_line "$work/java/broker.out" "boot success"
printf 'apache '
"$LOAD" "127.0.0.1:$java_broker" --count "$count" --rate "$rate" --ahead "$ahead" --pending "$pending" --pid "$java_pid"
