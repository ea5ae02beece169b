#!/bin/bash
# Makes a copy of a system's root, mounts the kernel's file systems there, and runs the steps as an ordinary user.
# tests/systems/run.sh calls it in new namespaces for mounts and processes.
#
#   enter.sh FOLDER SYSTEM STEPS
set -euo pipefail
folder=$1 system=$2 steps=$3
root=$folder/$system
user=tester

rm -rf "$root"
mkdir "$root"
tar -C "$root" --numeric-owner -xf "$folder/$system.tar"

mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root"/dev/{shm,pts}
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for number in 0 1 2; do ln -s "/proc/self/fd/$number" "$root/dev/$(sed -n "$((number + 1))p" <<<$'stdin\nstdout\nstderr')"; done

# Downloads are kept for the next run.
for cache in apt pip; do mkdir -p "$folder/cache/$system/$cache"; done
mkdir -p "$root/var/cache/pip"
mount --bind "$folder/cache/$system/apt" "$root/var/cache/apt/archives"
mount --bind "$folder/cache/$system/pip" "$root/var/cache/pip"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
hostname "$system"
echo "127.0.0.1 localhost $system" >"$root/etc/hosts"

chroot "$root" useradd -m -s /bin/bash $user
chroot "$root" chown $user /var/cache/pip
echo "$user ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$user"
mkdir "$root/home/$user/framed"
tar -C "$root/home/$user/framed" -xf "$folder/framed.tar"
chroot "$root" chown -R $user: /home/$user
touch "$root/notes"
mount --bind "$folder/$system.notes" "$root/notes"
chroot "$root" chown $user /notes

mapfile -d '' -t variables <"$folder/$system.environment"
# Not by exec: this shell is the first process of its namespace, and must reap orphaned processes.
chroot "$root" sudo -u $user env -i HOME=/home/$user USER=$user PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 \
  PIP_CACHE_DIR=/var/cache/pip "${variables[@]}" /home/$user/framed/tests/systems/inside.sh /notes "$steps"
