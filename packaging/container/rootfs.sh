#!/bin/sh
# Puts the files of the container image into a folder: the binary, the libraries that it needs, a user, an empty data folder,
# and the model if its folder is given. The Dockerfile runs this, and so does scripts/test_dist.sh, which tests the
# folder with chroot.
#   rootfs.sh BINARY FOLDER [MODEL]
set -eu

binary=$1 root=$2 model=${3:-}
user=65532 # "nonroot" in other images without a shell

copy_with_folders() {
    mkdir -p "$root$(dirname "$1")"
    cp -L "$1" "$root$1"
}

rm -rf "$root"
mkdir -p "$root/usr/bin" "$root/etc" "$root/tmp" "$root/var/lib/weir"
cp "$binary" "$root/usr/bin/weir"
# glibc and libgcc, by the paths of this system. ONNX Runtime, for models that need it, is mounted by the user and needs
# libstdc++, which is not here.
ldd "$binary" | grep -o '/[^ ]*' | while read -r library; do copy_with_folders "$library"; done
printf 'root:x:0:0:root:/:\nweir:x:%s:%s:weir:/var/lib/weir:\n' "$user" "$user" >"$root/etc/passwd"
printf 'root:x:0:\nweir:x:%s:\n' "$user" >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
chmod 1777 "$root/tmp"
if [ -n "$model" ]; then
    mkdir -p "$root/usr/share/weir/models"
    cp -rL "$model" "$root/usr/share/weir/models/all-MiniLM-L6-v2"
fi
chmod -R a+rX "$root"
chown "$user:$user" "$root/var/lib/weir"
