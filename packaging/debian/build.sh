#!/usr/bin/env bash
# Builds the .deb: the binary, a systemd unit, its configuration, completions and manual pages.
#   build.sh BINARY SHARE OUT VERSION    SHARE has `completions` and `man`, as `weir completions` and `weir man` write them
set -euo pipefail
binary=$1 share=$2 out=$3 version=$4
here=$(dirname "$0")
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
chmod 0755 "$root"
trap 'rm -rf "$root"' EXIT

install_files() {
    install -D -m 0755 "$binary" "$root/usr/bin/weir"
    install -D -m 0644 "$here/weir.service" "$root/usr/lib/systemd/system/weir.service"
    install -D -m 0644 "$here/weir.sysusers" "$root/usr/lib/sysusers.d/weir.conf"
    install -D -m 0644 "$here/weir.toml" "$root/etc/weir/weir.toml"
    install -D -m 0644 "$here/copyright" "$root/usr/share/doc/weir/copyright"
    install -D -m 0644 "$share/weir.cdx.json" "$root/usr/share/doc/weir/weir.cdx.json"
    install -D -m 0644 "$share/completions/weir.bash" "$root/usr/share/bash-completion/completions/weir"
    install -D -m 0644 "$share/completions/_weir" "$root/usr/share/zsh/vendor-completions/_weir"
    install -D -m 0644 "$share/completions/weir.fish" "$root/usr/share/fish/vendor_completions.d/weir.fish"
    for page in "$share"/man/*.1; do
        install -D -m 0644 "$page" "$root/usr/share/man/man1/${page##*/}"
    done
    gzip -9n "$root"/usr/share/man/man1/*.1
}

# The newest version of the C library whose functions the binary calls.
glibc_version() {
    readelf --version-info "$binary" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1 | cut -d_ -f2
}

write_control() {
    mkdir -p "$root/DEBIAN"
    install -m 0755 "$here/postinst" "$here/prerm" "$here/postrm" "$root/DEBIAN/"
    echo /etc/weir/weir.toml >"$root/DEBIAN/conffiles"
    (cd "$root" && find usr etc -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    cat >"$root/DEBIAN/control" <<CONTROL
Package: weir
Version: $version
Architecture: $architecture
Maintainer: The Weir authors <weir@localhost>
Installed-Size: $(du -sk "$root" | cut -f1)
Depends: libc6 (>= $(glibc_version)), libgcc-s1
Section: database
Priority: optional
Description: retrieval gateway: ingest documents, embed them on the CPU, search them and cite
 One binary between an application and its models. It embeds documents on the
 CPU and serves hybrid search (BM25 and embeddings) with citations over HTTP,
 and embeddings by the APIs of OpenAI and text-embeddings-inference.
CONTROL
}

install_files
write_control
mkdir -p "$out"
dpkg-deb --root-owner-group --build "$root" "$out/weir_${version}_$architecture.deb"
