#!/bin/bash
# `make check-container`: builds the container image, sends frames through a container, and stops it.
#
# PODMAN names the program with its options (podman --runtime runc), BASE the image to build on. Without a registry and such an
# image, debootstrap makes one.
set -euo pipefail
cd "$(dirname "$0")/.."
read -ra podman <<<"${PODMAN:-podman}"
made=localhost/framed-base:bookworm
image=localhost/framed-check:$$
containers=(framed-check-$$ framed-check-link-$$)
options=(--network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024) # processes in a container may not raise limits

fail() {
  echo "container test: $*" >&2
  "${podman[@]}" logs "${containers[0]}" >&2 || true
  exit 1
}

command -v "${podman[0]}" >/dev/null || { echo "container test: left out: no ${podman[0]} (apt install podman runc)"; exit 0; }

make_base() {
  command -v debootstrap >/dev/null || fail "no registry can be reached, and there is no debootstrap: name an image of Debian by BASE"
  echo "container test: making $made by debootstrap"
  debootstrap --variant=minbase bookworm "$folder/root" >"$folder/log" || { tail -n 5 "$folder/log" >&2; fail "debootstrap failed"; }
  tar -C "$folder/root" --exclude='./var/cache/apt/archives/*.deb' -c . | "${podman[@]}" import - "$made" >/dev/null
}

find_base() {
  local there
  for there in "$made" docker.io/library/debian:bookworm-slim; do
    if "${podman[@]}" image exists "$there" || timeout 60 "${podman[@]}" pull -q "$there" >/dev/null 2>&1; then
      echo "$there"
      return
    fi
  done
}

folder=$(mktemp -d)
trap '"${podman[@]}" rm -fv "${containers[@]}" >/dev/null 2>&1; "${podman[@]}" volume rm -f "${containers[@]}" >/dev/null 2>&1; "${podman[@]}" rmi -f "$image" >/dev/null 2>&1; rm -rf "$folder"' EXIT
base=${BASE:-$(find_base)}
if [ -z "$base" ]; then
  make_base
  base=$made
fi
"${podman[@]}" build --network host --build-arg "BASE=$base" -t "$image" -f packaging/Containerfile . >"$folder/log" 2>&1 ||
  { tail -n 20 "$folder/log" >&2; fail "the image cannot be built"; }

cat >"$folder/framed.yaml" <<'END'
gpu: {backend: cpu}
pipelines:
  cam0:
    source: {socket: cam0.sock, protocol: raw, format: {dtype: uint8, shape: [4096]}}
    overload: block
    stages: [{affine: {scale: -1, offset: 255}}]
    sink: {socket: cam0.out.sock, protocol: raw, overload: block}
END
"${podman[@]}" run -d --name "${containers[0]}" "${options[@]}" -v "${containers[0]}:/run/framed" \
  -v "$folder/framed.yaml:/etc/framed/framed.yaml:ro" "$image" >/dev/null || fail "it does not start"
sockets=$("${podman[@]}" volume inspect -f '{{.Mountpoint}}' "${containers[0]}")
for _ in $(seq 200); do
  ! "${podman[@]}" exec "${containers[0]}" framectl health >/dev/null 2>&1 || break
  sleep 0.1
done
"${PYTHON:-python3}" - "$sockets" <<'END' || fail "frames do not come through"
import socket, sys, threading
frames = b"".join(bytes([number]) * 4096 for number in range(100))
def connect(name):
    there = socket.socket(socket.AF_UNIX)
    there.settimeout(60)
    there.connect(f"{sys.argv[1]}/{name}.sock")
    return there
reader, producer = connect("cam0.out"), connect("cam0")
threading.Thread(target=producer.sendall, args=(frames,), daemon=True).start()
results = b""
while len(results) < len(frames):
    part = reader.recv(1 << 16)
    assert part, len(results)
    results += part
assert results == bytes(255 - byte for byte in frames)
END
"${podman[@]}" exec "${containers[0]}" framectl status cam0 | grep -q emitted || fail "framectl does not find the daemon"
"${podman[@]}" stop -t 30 "${containers[0]}" >/dev/null
status=$("${podman[@]}" inspect -f '{{.State.ExitCode}}' "${containers[0]}")
[ "$status" = 0 ] || fail "it ends with $status"
"${podman[@]}" run --rm --name "${containers[1]}" "${options[@]}" -v "$PWD/packaging/examples/link.yaml:/etc/framed/link.yaml:ro" \
  --entrypoint framed-link "$image" --check >"$folder/link" || fail "framed-link does not take its example"
grep -q 'consumer workers' "$folder/link" || fail "framed-link says: $(cat "$folder/link")"
echo "container: built on $base, 100 frames through it, and stopped"
