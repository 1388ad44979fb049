#!/bin/sh
# Captures every screen of the dashboard at 100x30 from a live demo cluster, as text files beside this one.
#
#   docs/screens/make.sh [RMQ]      RMQ: the binary [default: target/release/rmq]
#
# Needs tmux. The demo listens on loopback, on ports of its own, in a directory that is removed afterwards.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
rmq=${1:-$here/../../target/release/rmq}
dir=$(mktemp -d)
export HOME="$dir" TMUX_TMPDIR="$dir" TERM=xterm-256color LC_ALL=C.UTF-8 TZ=UTC
unset NO_COLOR RMQ_CONTEXT RMQ_CONFIG RMQ_NAMESRV NAMESRV_ADDR
port=${RMQ_DEMO_NAMESRV_PORT:-29876}
ns=127.0.0.1:$port

"$rmq" standalone --demo --store "$dir/store" --namesrv-port "$port" \
    --broker-port "${RMQ_DEMO_BROKER_PORT:-30911}" --log-dir "$dir/logs" >"$dir/out" 2>&1 &
server=$!
cleanup() {
    tmux kill-server 2>/dev/null || true
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT INT TERM

i=0
until "$rmq" -n "$ns" broker list 2>/dev/null | grep -q broker-a; do
    i=$((i + 1))
    [ $i -lt 100 ] || { cat "$dir/out" >&2; exit 1; }
    sleep 0.2
done
tmux -f /dev/null new-session -d -s s -x 100 -y 30 "$rmq tui -n $ns --utc --interval 1s --store $dir/store --screen overview"

# Waits until the screen shows a text.
shows() {
    i=0
    until tmux capture-pane -p -t s | grep -qF -- "$1"; do
        i=$((i + 1))
        [ $i -lt 300 ] || { echo "no \"$1\" on the screen:" >&2; tmux capture-pane -p -t s >&2; exit 1; }
        sleep 0.2
    done
}

# Writes the screen to a file.
take() {
    tmux capture-pane -p -t s | sed "s|$dir|~|; s/[[:space:]]*\$//" >"$here/$1.txt"
    echo "$1"
}

keys() { tmux send-keys -t s "$@"; }

shows "brokers 1/1"
# The history has to have something to show.
sleep "${SECONDS_OF_HISTORY:-45}"
keys 1; shows "Worst lag"; take 1-overview
keys 2; shows Registrations; take 2-heartbeats
keys 3; shows "Brokers 1"; take 3-brokers
keys Enter; shows "put latency"; take 3-broker
keys 4; shows "Topics "; sleep 12; take 4-topics
keys Enter; shows "Queue scaling"; sleep 5; take 4-topic
keys q; shows "Queues of"; take 4-topic-scaling-form
keys 2 Enter; shows "scale topic demo_orders"; take 4-topic-scaling-plan
keys -l demo_orders; keys Enter; shows "step 3 of 5"; sleep 4; take 4-topic-scaling-step
# A group that is behind does not let it end here: it is stopped, and the topic says so.
keys x; shows "was interrupted at"; keys Escape; shows "✗ interrupted"; take 4-topic-scaling-interrupted
keys 5; shows "Groups "; sleep 12; take 5-groups
keys Enter; shows "Clients"; keys i; sleep 5; take 5-group
keys Escape; sleep 0.5
keys 6; shows "Messages of which topic"; keys Down Enter; shows "scanned"; sleep 2; keys T; shows "CONSUMED"; take 6-messages
keys k; shows "by key"; take 6-messages-form
keys Escape; sleep 0.5
keys 7; shows "Dead letters"; shows "Resend plan"; sleep 3; take 7-dlq
keys 8; shows "Groups and topics"; keys Enter; shows "Move offsets"; keys Tab; keys -l -- -10s; keys Enter
shows "replays"; take 8-offsets
keys 9; shows "CommitLog"; sleep 2; take 9-store-commitlog
keys q; sleep 3; take 9-store-queues
keys i; sleep 5; take 9-store-index
keys K; shows "checkpoint"; sleep 2; take 9-store-checkpoint
keys 1; shows "Worst lag"
keys "?"; shows "Keys on"; take help
keys Escape; sleep 0.5
keys :; shows "Go to or do"; take palette
keys Escape; sleep 0.5
keys C-c
