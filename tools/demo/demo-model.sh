#!/bin/bash
# Runs a video through the real daemon, where a model finds characters. Writes a frame with boxes to demo-model.png in the
# current folder. `make demo-model` runs this after the build. All other files are in build/demo-model/, including downloads,
# which are made once. No process remains, however the script ends.
picture=$PWD/demo-model.png
cd "$(dirname "$0")/../.."
# shellcheck source=tools/demo/common.sh
. tools/demo/common.sh demo-model build/demo-model
model=$here/characters.onnx
wheel=ddddocr-1.6.1-py3-none-any.whl
frames=120
shown=45 # the frame of the picture

# The model is part of the package of a program that uses it. A wheel that is already in the folder is not fetched again.
fetch_model() {
  echo "-- fetching the model (76 MB with pip, once): of ddddocr, under the MIT licence"
  if [ ! -s "$here/$wheel" ]; then
    python3 -m pip --version >/dev/null 2>&1 || fail "pip, which fetches the model, is not there" "Debian: apt install python3-pip"
    step_limit=1800 run "fetching the model" python3 -m pip download --disable-pip-version-check --no-input --retries 1 --no-deps --only-binary=:all: \
      --python-version 3.12 --dest "$here" ddddocr==1.6.1 >"$here/pip.log" 2>&1 ||
      fail "pip could not fetch the model: $(grep -v '^WARNING' "$here/pip.log" | tail -n 1)" \
        "where there is a network, run \`pip download --no-deps ddddocr==1.6.1\`, put $wheel into $here, and try again"
  fi
  rm -rf "$here/unpacked"
  python3 -m zipfile -e "$here/$wheel" "$here/unpacked" >"$here/pip.log" 2>&1 ||
    fail "$here/$wheel could not be unpacked: $(tail -n 1 "$here/pip.log")" "remove it, and try again"
  mv "$here/unpacked/ddddocr/common_det.onnx" "$model"
  mv "$here"/unpacked/ddddocr-*/licenses/LICENSE "$here/characters.LICENSE"
  rm -rf "$here/unpacked" "${here:?}/$wheel"
}

# Uses the machine's ONNX Runtime, or else fetches the one for the CPU.
find_runtime() {
  if build/framectl models | grep 'which is used' >/dev/null; then return 0; fi
  export FRAMED_ONNXRUNTIME=$PWD/$here/onnxruntime
  [ ! -d "$FRAMED_ONNXRUNTIME" ] || return 0
  echo "-- fetching ONNX Runtime, which computes models (19 MB with pip, once)"
  step_limit=1800 run "fetching ONNX Runtime" build/framectl models install || fail "there is no ONNX Runtime"
}

# The letters of a word, each with its own motion.
make_video() {
  local filter="mandelbrot=size=640x480:rate=30:start_scale=0.02:start_x=-0.7436:start_y=0.1318:maxiter=300,trim=end_frame=1"
  filter+=",gblur=sigma=8,eq=saturation=0.6:brightness=-0.05,loop=loop=-1:size=1,setpts=N/TB/30"
  local colours=(white yellow orange cyan white yellow) word=FRAMED
  for i in "${!colours[@]}"; do
    filter+=",drawtext=font='Sans\:bold':text=${word:i:1}:fontsize=72:borderw=3:fontcolor=${colours[i]}"
    filter+=":x='45+95*$i+20*sin(1.3*t+$i)':y='190+150*sin(1.1*t+1.7*$i)'"
  done
  run "making the video" ffmpeg -nostdin -v error -y -f lavfi -i "$filter,format=yuv420p" -frames:v $frames -f yuv4mpegpipe \
    "$here/video.y4m" 2>"$here/video.log"
}

configure() {
  local backend=auto
  build/framectl models | grep 'and CUDA, which is used' >/dev/null || backend=cpu
  sed "s/backend: auto/backend: $backend/" tools/demo/demo-model.yaml >"$here/framed.yaml"
  echo character >"$here/labels"
}

# Feeds both pipelines at once, as fast as they accept frames.
send_video() {
  local readers=() reader
  echo "-- sending the video to $here/boxes.sock and $here/pictures.sock"
  begin build/framectl -s "$here/status.sock" pull --frames $frames boxes >"$here/boxes.json" 2>"$here/readers.log"
  readers+=("$begun")
  begin build/framectl -s "$here/status.sock" pull --frames $frames pictures >"$here/pictures.y4m" 2>>"$here/readers.log"
  readers+=("$begun")
  wait_until "the reader of boxes is connected" has_readers boxes 1
  wait_until "the reader of pictures is connected" has_readers pictures 1
  started=$(date +%s%N)
  run "sending the video" ffmpeg -nostdin -v error -i "$here/video.y4m" -f yuv4mpegpipe "unix:$here/boxes.sock" \
    -f yuv4mpegpipe "unix:$here/pictures.sock" 2>"$here/camera.log" || fail "the video could not be sent: $(cat "$here/camera.log")"
  for reader in "${readers[@]}"; do
    finish "$reader" "reading the $frames results" || fail "the results could not be read: $(cat "$here/readers.log")"
  done
  ended=$(date +%s%N)
}

# The results have a line of JSON for each frame.
say_boxes() {
  echo "$frames frames with $(grep -o '"score"' "$here/boxes.json" | wc -l) boxes; in the one of the picture:"
  sed -n "$((shown + 1))p" "$here/boxes.json" | grep -o '{"x"[^}]*}' | tr -d '{}"' |
    awk -F '[:,]' '{ printf "  a character of %.0f x %.0f pixels at (%.0f, %.0f), score %.2f\n", $6, $8, $2, $4, $10 }'
}

mkdir -p "$here"
rm -f "$here"/*.log "$here"/*.sock "$here"/*.json "$here"/*.y4m
command -v ffmpeg >/dev/null || fail "ffmpeg, which makes the video, is not there" "Debian: apt install ffmpeg"
[ -s "$model" ] || fetch_model
find_runtime
echo "-- making four seconds of video: $here/video.y4m"
make_video || fail "ffmpeg could not make the video: $(tail -n 1 "$here/video.log")" "it needs its filter drawtext and a font (Debian: fonts-dejavu-core)"
configure
start_framed "$here/framed.yaml"
send_video
run "making the picture" ffmpeg -nostdin -v error -y -i "$here/pictures.y4m" -vf "select='eq(n,$shown)'" -frames:v 1 "$picture" 2>"$here/picture.log" ||
  fail "$picture could not be written: $(tail -n 1 "$here/picture.log")"
stop_framed

echo
say_boxes
awk -v frames=$frames -v took=$((ended - started)) 'BEGIN {
  printf "%.1f frames/s went through the model, with two pipelines of %d frames side by side\n", 2e9 * frames / took, frames }'
echo
echo "all results as a video:  $here/pictures.y4m"
echo "the picture:             $picture"
