#!/bin/bash
# Runs a video through the real daemon as a camera would, and shows what became of it: what `make demo` runs after
# the build. Everything lies in build/demo/; no process is left, however it ends.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec </dev/null
config=config/examples/demo.yaml
here=build/demo
status=$here/status.sock
frames=300
framed=
reader=

clean_up() {
  for process in $reader $framed; do
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
}
trap clean_up EXIT
trap 'exit 130' INT TERM

fail() {
  echo "demo: $*" >&2
  if [ -s $here/framed.log ]; then
    echo "demo: the log of framed ($here/framed.log):" >&2
    cat $here/framed.log >&2
  fi
  exit 1
}

# Waits until a command succeeds, as long as the daemon lives.
wait_until() {
  for _ in $(seq 300); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    kill -0 "$framed" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

framectl() { build/framectl -s $status "$@"; }

rm -rf $here
mkdir -p $here

echo "-- making ten seconds of video: $here/camera.y4m"
tools/demo/video.sh $here/camera.y4m || fail "ffmpeg could not make the video"

echo "-- starting build/framed -c $config"
build/framed -c $config 2>$here/framed.log &
framed=$!
wait_until framectl status || fail "framed did not come up"

echo "-- reading results from $here/camera.out.sock into $here/results.mkv"
ffmpeg -nostdin -v error -y -f yuv4mpegpipe -i unix:$here/camera.out.sock -frames:v $frames -c:v mpeg4 -q:v 2 $here/results.mkv \
  2>$here/reader.log &
reader=$!

echo "-- sending the video to $here/camera.sock at 30 frames a second, as a camera would"
ffmpeg -nostdin -v error -re -i $here/camera.y4m -f yuv4mpegpipe unix:$here/camera.sock 2>$here/camera.log ||
  fail "the video could not be sent: $(cat $here/camera.log)"
wait_until sh -c "! kill -0 $reader" || fail "the reader did not get its $frames results"
wait "$reader" || fail "the results could not be read: $(cat $here/reader.log)"
reader=

echo
framectl status camera || fail "framectl could not read the status"
ffmpeg -nostdin -v error -y -i $here/camera.y4m -i $here/results.mkv -filter_complex \
  "[0]select='eq(n,180)'[before];[1]select='eq(n,180)',format=yuv420p[after];[before][after]hstack,scale=800:-1" \
  -frames:v 1 $here/before-after.png || fail "the picture could not be made"

kill -TERM $framed
wait $framed || fail "framed ended with status $?"
framed=
echo
echo "the results as a video:  $here/results.mkv"
echo "before and after:        $here/before-after.png"
