#!/bin/bash
# Completes build/portable after its programs are linked: adds their libraries, and pytest with the tests that need a GPU.
# glibc is left out, since programs must use the machine's own one, which must be new enough.
set -euo pipefail
cd "$(dirname "$0")/../build/portable"

# Parts of glibc, and the loader: these must come from the machine itself.
system='linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|util)\.so'

mkdir -p lib
mapfile -t programs < <(find . -type f -perm -u+x ! -name '*.so*' ! -path './tests/e2e/*' ! -path './peers/*' ! -name '*.sh')
for program in "${programs[@]}"; do
  LD_LIBRARY_PATH=$PWD/lib ldd "$program"
done | awk '$2 == "=>" && $3 ~ "^/" {print $1, $3}' | sort -u | while read -r name path; do
  if ! [[ $name =~ ^($system) ]] && [ ! -e "lib/$name" ]; then
    cp -L "$path" "lib/$name"
  fi
done
# framebench loads CUPTI by name, when it is asked to.
nvcc=${NVCC:-/usr/local/cuda/bin/nvcc}
for cupti in "${nvcc%/bin/nvcc}"/lib64/libcupti.so.1[23] "${nvcc%/bin/nvcc}"/lib/*/libcupti.so.1[23]; do
  if [ -e "$cupti" ]; then cp -L "$cupti" lib/; fi
done
chmod u+w lib/*

cp ../../tests/gpu/check.sh check-gpu.sh
cp ../../tools/framebench/measure.sh measure.sh
cp ../../tests/gpu/sandbox.sh sandbox.sh
mkdir -p tests
cp ../../tests/gpu/sandbox.py ../../tests/gpu/faults.py ../../tests/gpu/many.py ../../tests/gpu/model_faults.py tests/
"${PYTHON:-/usr/bin/python3}" tests/sandbox.py --save tests/system-calls.json
cp ../../packaging/systemd/framed.service.in framed.service
rm -rf peers
cp -r ../../tools/framebench/peers peers
cp ../../config/framed.yaml framed.yaml
rm -rf tests/e2e
cp -r ../../tests/e2e tests/e2e
rm -rf tools/client
mkdir -p tools/client
cp -r ../../tools/client/python tools/client/python
mkdir -p tests/python
for module in pytest _pytest pluggy iniconfig packaging attr attrs py exceptiongroup tomli; do
  for found in /usr/lib/python3/dist-packages/"$module"{,.py}; do
    if [ -e "$found" ]; then cp -r "$found" tests/python/; fi
  done
done
find tests tools peers -name __pycache__ -prune -exec rm -r {} +

cp ../../packaging/systemd/framed.sysusers framed.sysusers

needed=$(objdump -T "${programs[@]}" lib/* 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
cat >README <<END
framed for $(uname -m), with ${FRAMED_BACKENDS:-the CPU backend alone}. It needs Linux with ${needed/_/ } or later, and installs nothing.

to                  copy                                          where
run it              framed, framed-worker, framectl and lib/      any folder, such as /opt/framed, side by side
configure it        framed.yaml (has every key; change it)        /etc/framed/framed.yaml
  then: /opt/framed/framed --check -c /etc/framed/framed.yaml, and without --check to start
run it by systemd   framed.service                                /etc/systemd/system/
                    framed.sysusers                               /etc/sysusers.d/framed.conf
  first fill in the folders, and make the user of the service:
  sed -i 's,@BINDIR@,/opt/framed,; s,@SYSCONFDIR@,/etc,' /etc/systemd/system/framed.service
  systemd-sysusers && systemctl daemon-reload && systemctl enable --now framed
measure             also framebench, measure.sh and peers/        beside framed; ./measure.sh FOLDER
test it on a GPU    the whole folder                              any folder; ./check-gpu.sh, ./sandbox.sh
END
echo "build/portable: $(du -sh . | cut -f1), needs $needed or later; build/portable/README says which files to copy where"
