#!/bin/bash
# Runs `make install` into an empty folder, twice, and `make uninstall`. All files must be installed, and a changed
# configuration must be kept. In the end only that configuration remains.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
make=(make --no-print-directory DESTDIR="$root" PREFIX=/usr)

fail() {
  echo "install test: $*" >&2
  exit 1
}

# Runs systemd-analyze on the installed units and drop-ins of the service, with the folder as the root.
verify() { # [DROP-IN]...
  mkdir -p "$root/verified/framed.service.d"
  [ $# = 0 ] || cp "$@" "$root/verified/framed.service.d"
  sed -E "s,^(Exec[A-Za-z]+=)/usr,\1$root/usr," "$root/usr/lib/systemd/system/framed.service" >"$root/verified/framed.service"
  cp "$root/usr/lib/systemd/system/framed@.socket" "$root/verified/framed@cam0.socket"
  [ -z "$link" ] || sed -E "s,^(Exec[A-Za-z]+=)/usr,\1$root/usr," "$root/usr/lib/systemd/system/$link.service" >"$root/verified/$link.service"
  systemd-analyze verify --man=no "$root"/verified/*.service "$root"/verified/*.socket 2>&1 || true
  rm -r "$root/verified"
}

# The unit is also verified with its drop-in. Its exposure level must not exceed this value of 100.
exposure=20

rm -rf build/installed
"${make[@]}" programs >/dev/null
[ -d build/installed ] || fail "the build leaves build/installed to root, whose files users cannot remove"
"${make[@]}" install >/dev/null
link=''
[ ! -e "$root/usr/bin/framed-link" ] || link=framed-link # if libnats-dev is installed
for file in usr/bin/framed usr/bin/framectl usr/lib/systemd/system/framed.service usr/lib/systemd/system/framed@.socket \
  usr/lib/sysusers.d/framed.conf usr/lib/systemd/catalog/framed.catalog usr/share/man/man8/framed.8.gz \
  usr/share/man/man1/framectl.1.gz usr/share/man/man5/framed.yaml.5.gz usr/share/man/man7/framed-protocol.7.gz usr/share/man/man7/framed-models.7.gz \
  usr/share/bash-completion/completions/framectl \
  usr/share/zsh/site-functions/_framectl usr/share/framed/grafana/framed.json \
  usr/share/framed/prometheus/framed.rules.yml usr/lib/libframed.a usr/lib/libframed.so usr/lib/pkgconfig/framed.pc \
  usr/include/framed.h usr/share/doc/framed/examples/many-clients.yaml usr/share/doc/framed/framed.yaml etc/framed/framed.yaml; do
  [ -s "$root/$file" ] || fail "$file is not installed"
done
if grep -rIl '@[A-Z]*@' "$root"; then fail "placeholders are left in the files above"; fi
# Completions and manual pages must contain every command and option of the programs.
help_of() { # PROGRAM: prints its help, and that of each command
  "$root/usr/bin/$1" --help
  [ "$1" != framebench ] || for command in $("$root/usr/bin/$1" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    "$root/usr/bin/$1" "$command" --help
  done
}
# A program must find the library by pkg-config, and each call needs a manual page.
export PKG_CONFIG_PATH=$root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
read -ra found < <(pkg-config --cflags --libs framed)
read -ra compiler <<<"${CC:-gcc}" # it may have several words, such as "ccache gcc"
"${compiler[@]}" -o "$root/example" "$root/usr/share/doc/framed/examples/example.c" "${found[@]}" || fail "the example does not build"
answer=$(LD_LIBRARY_PATH=$root/usr/lib "$root/example" "$root/none.sock" 2>&1 || true)
[[ $answer == *"cannot connect to $root/none.sock"* ]] || fail "the example says: $answer"
answer=$(LD_LIBRARY_PATH=$root/usr/lib ldd "$root/example")
[[ $answer == *"$root/usr/lib/libframed.so.0"* ]] || fail "the example has not libframed.so.0"
rm "$root/example"
for call in $(nm -D --defined-only "$root/usr/lib/libframed.so" | awk '{print $3}') libframed; do
  [[ $call == *framed* ]] || fail "libframed shows $call"
  [ -s "$root/usr/share/man/man3/$call.3.gz" ] || fail "$call has no manual page"
done
shared=$(nm -D --defined-only "$root/usr/lib/libframed.so" | awk '{print $3}' | sort)
static=$(nm -g --defined-only "$root/usr/lib/libframed.a" | awk 'NF == 3 {print $3}' | sort)
[ "$shared" = "$static" ] || fail "the static library shows other names than the shared one: $static"
for program in framed framectl framebench $link; do
  page=$(zcat "$root"/usr/share/man/man?/"$program".?.gz | sed 's/\\-/-/g')
  for word in $(help_of "$program" | grep -oE '^  [a-z]+ |--[a-z-]+' | sort -u); do
    grep -q -e "$word" <<<"$page" || fail "$word is not in the manual page of $program"
    grep -q -e "$word" "packaging/completions/$program.bash" || fail "$word is not in the bash completion of $program"
    grep -q -e "$word" "packaging/completions/$program.zsh" || fail "$word is not in the zsh completion of $program"
  done
done
"$root/usr/bin/framed" --version >/dev/null
"$root/usr/bin/framed" --check -c "$root/etc/framed/framed.yaml" >/dev/null || fail "the default configuration is not valid"
answer=$("$root/usr/bin/framed" -c "$root/none.yaml" 2>&1 || true)
[[ $answer == *"commented example, $root/usr/share/doc/framed/framed.yaml"* ]] ||
  fail "a missing configuration is not answered with the example's place"
complaints=$(verify)
[ -z "$complaints" ] || fail "systemd-analyze complains: $complaints"
complaints=$(verify "$root/usr/share/doc/framed/examples/realtime.conf")
[ -z "$complaints" ] || fail "systemd-analyze complains of the unit with the drop-in for real-time lanes: $complaints"
for unit in framed $link; do
  systemd-analyze security --offline=true --no-pager --threshold=$exposure "$root/usr/lib/systemd/system/$unit.service" \
    >"$root/security" || fail "$unit.service is more exposed than $exposure of 100: $(tail -n 1 "$root/security")"
done
rm "$root/security"
[ -z "$link" ] || "$root/usr/bin/framed-link" --check -c "$root/usr/share/doc/framed/link.yaml" >/dev/null || fail "the example of framed-link is not valid"

echo "# mine" >>"$root/etc/framed/framed.yaml"
"${make[@]}" install >/dev/null
grep -q '^# mine' "$root/etc/framed/framed.yaml" || fail "a changed configuration was overwritten"
"${make[@]}" uninstall >/dev/null
left=$(find "$root" ! -type d)
[ "$left" = "$root/etc/framed/framed.yaml" ] || fail "uninstall leaves: $left"
echo "install: everything in its place, and gone again"
