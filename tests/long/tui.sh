#!/usr/bin/env bash
# tui.sh [own|java]: the dashboard in tmux against a real cluster, read from the screen. A name server and two brokers, rmq's own
# (the default) or Java 5.3.3; consumers are Java's. Prints one PASS or FAIL line a check; takes about seven minutes. Needs tmux.
set -eu
kind=${1:-own}
. "$(dirname "$0")/cluster.sh"
start_broker broker-a "$broker"
start_broker broker-b $((broker + 20))
stopped=$! # the last process started: broker-b
export TMUX_TMPDIR=$work LC_ALL=C.UTF-8 TERM=xterm-256color
unset NO_COLOR RMQ_CONTEXT RMQ_CONFIG NAMESRV_ADDR
tmux -f /dev/null new-session -d -s s -x 100 -y 30 "RMQ_NAMESRV=$RMQ_NAMESRV HOME=$HOME $RMQ tui --utc --interval 1s"
end() { kill -CONT "$stopped" 2> /dev/null || :; tmux kill-server 2> /dev/null || :; cleanup; }
trap end EXIT
trap "screen | sed 's/^/    /'" ERR

screen() { tmux capture-pane -p -t s; }
keys() { tmux send-keys -t s "$@"; }
type() { tmux send-keys -t s -l -- "$1"; }
back() { keys Escape; sleep 0.6; }
failed=0
check() { # NAME GOOD(0/1) TEXT
  if [ "$2" = 1 ]; then echo "PASS $1 $3"; else echo "FAIL $1 $3"; failed=1; screen | sed 's/^/    /'; fi
}
shows() { # PATTERN SECONDS
  for _ in $(seq $(($2 * 5))); do ! screen | grep -qE -- "$1" || return 0; sleep 0.2; done
  return 1
}
sees() { # NAME PATTERN SECONDS
  if shows "$2" "$3"; then check "$1" 1 "saw /$2/"; else check "$1" 0 "did not see /$2/ in $3 s"; fi
}

sees "live data" "brokers 2/2" 20
"$RMQ" topic create Tui --queues 16 --yes > /dev/null
"$RMQ" group create CG --yes > /dev/null
routed() { # TOPIC: on both brokers
  for _ in $(seq 100); do [ "$("$RMQ" topic route "$1" -o csv --no-headers 2> /dev/null | wc -l)" != 2 ] || return 0; sleep 0.2; done
  return 1
}
# A first client: mqadmin asks the brokers of a group's retry topic, which its first heartbeat makes.
routed Tui
(java_with 256m Receive "$RMQ_NAMESRV" Tui CG 0 1 linger=2000) > "$work/none" 2> "$work/none.err"
routed %RETRY%CG
"$RMQ" message send -t Tui --body x --count 60 -q > /dev/null
for b in broker-a broker-b; do for q in $(seq 0 15); do "$RMQ" offset set CG -t Tui "$b/$q=0" --yes -q > /dev/null; done; done

agree() { # whatever the dialog wants
  shows "Type .* to go on|▸Cancel" 30 || return 0
  if screen | grep -q "▸Cancel"; then
    keys Tab
  else
    type "$(screen | sed -n 's/.*Type \(.*\) to go on.*/\1/p')"
  fi
  keys Enter
}

# Send, lag, consume, no lag.
keys 5
sees "lag appears" "CG +.* 60 " 30
(java_with 256m org.apache.rocketmq.tools.command.MQAdminStartup consumerProgress -n "$RMQ_NAMESRV" -g CG) > "$work/progress" 2>&1 || :
told=$(grep -oE "Diff Total: *[0-9]+" "$work/progress" | tr -d " " || :)
check "mqadmin says the same" $([ "$told" = "DiffTotal:60" ] && echo 1 || echo 0) "${told:-$(grep -m 1 -E "Exception|CODE" "$work/progress")}"
(java_with 256m Receive "$RMQ_NAMESRV" Tui CG 60 60) > "$work/got" 2> "$work/got.err" || :
check "consumed" $([ "$(wc -l < "$work/got")" = 60 ] && echo 1 || echo 0) "$(wc -l < "$work/got") of 60"
sees "lag is gone" "CG +.* 0 " 40

# A reset replays what the preview says.
keys o; shows "Move offsets of CG" 10 || :
keys Tab; type earliest; keys Enter
sees "preview" "replays +60 messages" 20
keys C-a; agree
sees "reset done" "✓ done" 60
back
(java_with 256m Receive "$RMQ_NAMESRV" Tui CG 60 60 linger=3000) > "$work/again" 2>> "$work/got.err" || :
check "replayed to the message" $([ "$(wc -l < "$work/again")" = 60 ] && echo 1 || echo 0) "$(wc -l < "$work/again") of 60"

# A dead letter is sent again and consumed.
javac -nowarn -proc:none --release 11 -cp "$lib/lib/*" -d "$work/classes" "$here/Refuse.java"
"$RMQ" topic create Paid --queues 1 --yes > /dev/null
"$RMQ" group create PG --yes > /dev/null
"$RMQ" message send -t Paid --key L-1 --tag Late --body "letter 1" -q > /dev/null
(java_with 256m Refuse "$RMQ_NAMESRV" Paid PG 1 60) > "$work/refuse" 2>&1 || :
for _ in $(seq 100); do ! "$RMQ" dlq list -o csv --no-headers --columns group,count 2> /dev/null | grep -q "^PG,1" || break; sleep 0.2; done
keys 7
sees "a dead letter" "PG +1 " 30
keys Enter; shows "L-1" 20 || :
keys R; agree
sees "sent again" "✓ done" 40
back
sees "and remembered" "L-1.*✓ sent" 20
(java_with 256m Receive "$RMQ_NAMESRV" Paid PG 1 60) > "$work/letter" 2>> "$work/got.err" || :
# queueId queueOffset keys tags md5 reconsumeTimes
want=$(printf 'L-1\tLate\t%s\t0' "$(printf 'letter 1' | md5sum | cut -d' ' -f1)")
check "consumed after all" $([ "$(cut -f3- "$work/letter")" = "$want" ] && echo 1 || echo 0) "$(tr '\t' ' ' < "$work/letter")"

# Without write permission a producer fails.
keys 4; shows "Tui " 20 || :
keys /; type "^Tui$"; keys Enter
keys P; shows "Permission of Tui" 10 || :
type 4; keys Enter; agree
sees "perm 4" "✓ done" 30
back
if "$RMQ" message send -t Tui --body x -q > /dev/null 2> "$work/refused"; then good=0; else good=1; fi
check "a producer is refused" $good "$(head -1 "$work/refused")"
keys P; shows "Permission of Tui" 10 || :
type 6; keys Enter; agree
sees "perm 6" "✓ done" 30
back

# A shrink waits for a delayed message of a queue that goes.
"$RMQ" message send -t Tui --body late --delay 8 --broker broker-a --queue 12 -q > /dev/null # level 8: 4 minutes
keys q; shows "Queues of Tui" 10 || :
# CG is offline by now: nobody would move its position.
type 8; keys Tab; type CG; keys Enter; shows "Type Tui" 30 || :
sees "the plan knows of it" "1 delayed" 5
agree
sees "shrink runs" "running since" 20
back
keys Enter
sees "shrink is blocked" "delayed, 0 timed, 0 half messages will land" 150
numbers=$("$RMQ" topic get Tui -o csv --no-headers --columns read_queues,write_queues | sort -u | tr '\n' ' ')
check "readers stay" $([ "$numbers" = "16,8 " ] && echo 1 || echo 0) "read,write: $numbers"
keys '!'; sleep 0.5; keys x
sees "stopped at a safe place" "interrupted" 30
back
keys u; agree
sees "undone" "✓ done" 150
numbers=$("$RMQ" topic get Tui -o csv --no-headers --columns read_queues,write_queues | sort -u | tr '\n' ' ')
check "numbers are back" $([ "$numbers" = "16,16 " ] && echo 1 || echo 0) "read,write: $numbers"
back

# A broker that stands still: late, silent, gone; the other one's row keeps moving.
keys 2; shows "Registrations" 10 || :
sleep 12
kill -STOP "$stopped"
began=$(date +%s)
seen_at() { # PATTERN SECONDS: seconds since the stop
  if shows "$1" "$2"; then echo $(($(date +%s) - began)); else echo none; fi
}
moves() {
  a=$(screen | grep -E "broker-a:0 .*ns1" | head -1); sleep 3
  [ "$a" != "$(screen | grep -E "broker-a:0 .*ns1" | head -1)" ]
}
if [ "$kind" = own ]; then
  age=$(screen | sed -n 's/.*broker-b:0 .*ns1 *\([0-9]*\) =.*/\1/p' | head -1)
  late=$(seen_at "broker-b:0 .*LATE" 60)
  due=$((30 - ${age:-0}))
  check "LATE" $([ "$late" != none ] && [ $((late - due)) -le 5 ] && [ $((due - late)) -le 5 ] && echo 1 || echo 0) "after $late s, due after $due s"
  moves && check "the other row moves" 1 "" || check "the other row moves" 0 ""
fi
silent=$(seen_at "broker-b:0 .*SILENT" 90)
check "SILENT" $([ "$silent" != none ] && echo 1 || echo 0) "after $silent s"
gone=$(seen_at "broker-b:0 .*GONE" 150)
due=$((120 - ${age:-15}))
check "GONE" $([ "$gone" != none ] && [ "$gone" -ge $((due - 20)) ] && [ "$gone" -le $((due + 20)) ] && echo 1 || echo 0) "after $gone s, due about $due s (limit 120 s, scan 5 s)"
kill -CONT "$stopped"
sees "and back" "brokers 2/2 " 60
keys q
exit $failed
