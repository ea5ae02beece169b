#!/bin/bash
# Runs a video through the real daemon like a camera, and shows the result. `make demo` runs this after the build.
# All files are in build/demo/. No process remains, however the script ends.
cd "$(dirname "$0")/../.."
# shellcheck source=tools/demo/common.sh
. tools/demo/common.sh demo build/demo
config=config/examples/demo.yaml
frames=300

rm -rf "$here"
mkdir -p "$here"
command -v ffmpeg >/dev/null || fail "ffmpeg, which makes the video, is not there" "Debian, Ubuntu: apt install ffmpeg"

echo "-- making ten seconds of video: $here/camera.y4m"
run "making the video" tools/demo/video.sh "$here/camera.y4m" || fail "ffmpeg could not make the video"

start_framed $config

# Some versions of ffmpeg wait for the socket's end after the last frame. So framectl reads the socket, and ffmpeg a file.
echo "-- reading results from $here/camera.out.sock into $here/results.y4m"
begin build/framectl -s "$here/status.sock" pull --frames $frames camera >"$here/results.y4m" 2>"$here/reader.log"
reader=$begun
wait_until "the reader is connected" has_readers camera 1

echo "-- sending the video to $here/camera.sock at 30 frames a second, as a camera would"
run "sending the video" ffmpeg -nostdin -v error -re -i "$here/camera.y4m" -f yuv4mpegpipe "unix:$here/camera.sock" 2>"$here/camera.log" ||
  fail "the video could not be sent: $(cat "$here/camera.log")"
finish "$reader" "reading the $frames results" || fail "the results could not be read: $(cat "$here/reader.log")"

echo
framectl status camera || fail "framectl could not read the status"
run "making the video of the results" ffmpeg -nostdin -v error -y -i "$here/results.y4m" -c:v mpeg4 -q:v 2 "$here/results.mkv" ||
  fail "the video of the results could not be made"
run "making the picture" ffmpeg -nostdin -v error -y -i "$here/camera.y4m" -i "$here/results.y4m" -filter_complex \
  "[0]select='eq(n,180)'[before];[1]select='eq(n,180)',format=yuv420p[after];[before][after]hstack,scale=800:-1" \
  -frames:v 1 "$here/before-after.png" || fail "the picture could not be made"
rm "$here/results.y4m"

stop_framed
echo
echo "the results as a video:  $here/results.mkv"
echo "before and after:        $here/before-after.png"
