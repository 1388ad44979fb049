#!/bin/sh
# fetch.sh [DIR]: makes the Java peers of the interop tests. Leaves DIR/lib/*.jar (Apache RocketMQ from Maven Central) and
# DIR/classes (the programs of src/ here). Does nothing when both are current. DIR: ${RMQ_JAVA_CACHE:-~/.cache/rmq-java}.
#
#   java -cp 'DIR/lib/*' org.apache.rocketmq.namesrv.NamesrvStartup -c CONF
#   java -cp 'DIR/classes:DIR/lib/*' org.apache.rocketmq.broker.BrokerStartup -c CONF
#   java -cp 'DIR/lib/*' org.apache.rocketmq.tools.command.MQAdminStartup SUBCOMMAND ...
#   java -cp 'DIR/classes:DIR/lib/*' Send | Receive | DumpAll ...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-${RMQ_JAVA_CACHE:-$HOME/.cache/rmq-java}}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

sum() { cat "$@" | cksum | tr -d ' '; }
# fresh NAME SUM: NAME was made from what SUM stands for
fresh() { [ "$(cat "$dir/$1.sum" 2>/dev/null)" = "$2" ]; }

make_lib() {
  fresh lib "$lib_sum" && return
  rm -rf "$dir/lib" "$dir/lib.sum"
  mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$dir/lib" \
    > "$dir/mvn.log" 2>&1 || { cat "$dir/mvn.log" >&2; exit 1; }
  echo "$lib_sum" > "$dir/lib.sum"
}
make_classes() {
  fresh classes "$classes_sum" && return
  rm -rf "$dir/classes" "$dir/classes.sum"
  mkdir -p "$dir/classes/META-INF/service"
  javac -nowarn -proc:none --release 11 -encoding UTF-8 -cp "$dir/lib/*" -d "$dir/classes" "$here"/src/*.java
  echo LoopbackHa > "$dir/classes/META-INF/service/org.apache.rocketmq.store.ha.HAService"
  echo "$classes_sum" > "$dir/classes.sum"
}

lib_sum=$(sum "$here/pom.xml")
classes_sum=$(sum "$here/pom.xml" "$here/fetch.sh" "$here"/src/*.java)
# The lock keeps test processes that start together from working twice; the one left behind by a killed run is broken
# after ten minutes.
if ! { fresh lib "$lib_sum" && fresh classes "$classes_sum"; }; then
  tries=0
  until mkdir "$dir/lock" 2>/dev/null; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || { rmdir "$dir/lock" 2>/dev/null || :; tries=0; }
    sleep 1
  done
  trap 'rmdir "$dir/lock"' EXIT
  make_lib
  make_classes
fi
