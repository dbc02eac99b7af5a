#!/usr/bin/env bash
# Runs the tests of the kernels on an emulated 64-bit ARM processor, with dot products and without.
#
# The standard library for that processor comes from rustup, where `rustup target add aarch64-unknown-linux-gnu` was run;
# otherwise from Debian, with the compiler that it belongs to. Where neither is to be had, this says so.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
folder=$PWD/.cache/neon

say() { printf 'neon: %s\n' "$*"; }
die() { printf 'neon: %s\n' "$*" >&2; exit 1; }
skip() { say "SKIPPED, the NEON kernels were not run: $*"; exit 0; }
has() { command -v "$1" >/dev/null 2>&1; }

has_emulator() { has qemu-aarch64 && has aarch64-linux-gnu-gcc; }

install_emulator() {
    local packages=(qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross) sudo=()
    has apt-get || return
    [ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
    say "installing ${packages[*]}"
    "${sudo[@]}" apt-get update -qq &&
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null
}

# Whether version $1 of the compiler is the one that Cargo.toml asks for, or later.
is_new_enough() {
    local wanted
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    [ "$(printf '%s\n' "$wanted" "$1" | sort -V | head -1)" = "$wanted" ]
}

# Whether the compiler $RUSTC (or the pinned one) starts, is new enough, and has the target's standard library.
has_target() {
    local version
    version=$("${RUSTC:-rustc}" --version 2>/dev/null | cut -d' ' -f2) || return
    is_new_enough "$version" && [ -d "$("${RUSTC:-rustc}" --print target-libdir --target "$target")" ]
}

# Unpacks Debian's compiler and both its standard libraries into .cache, without touching what the system has installed.
# `rustc-web` is what stable Debian builds browsers with, and newer than its `rustc`.
fetch_compiler() {
    local name=$1 apt version
    rm -rf "$folder" && mkdir -p "$folder"/{root,lists/partial,packages/partial}
    apt=(-qq -o Debug::NoLocking=1 -o Dir::State::Lists="$folder/lists" -o Dir::Cache::Archives="$folder/packages"
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User="$(id -un)"
        -o APT::Architectures::=amd64 -o APT::Architectures::=arm64)
    apt-get "${apt[@]}" update || return
    version=$(apt-cache "${apt[@]}" policy "$name" | sed -n 's/^ *Candidate: //p')
    is_new_enough "${version:-0}" || { say "Debian's $name is ${version:-not there}"; return 1; }
    say "fetching $name $version and its library for ARM"
    apt-get "${apt[@]}" install -y --download-only --no-install-recommends "$name" &&
        (cd "$folder/packages" && apt-get "${apt[@]}" download "libstd-${name/rustc/rust}-dev:arm64") || return
    for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder/root" || return; done
    rm -r "$folder/lists" "$folder/packages"
    printf '#!/usr/bin/env bash\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' \
        "$folder/root/usr/lib/x86_64-linux-gnu" "$folder/root/usr/bin/rustc" >"$folder/rustc"
    chmod +x "$folder/rustc"
}

choose_compiler() {
    ! has_target || return 0
    export RUSTC=$folder/rustc
    ! has_target || return 0
    has apt-get && [ "$(dpkg --print-architecture)" = amd64 ] || return
    for name in rustc-web rustc; do
        ! { fetch_compiler "$name" && has_target; } || return 0
    done
    return 1
}

# The tests on processor $1; what follows chooses among them.
run_on() {
    local cpu=$1
    shift
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu $cpu"
    cargo test --locked --profile checked -p weir-kernels --lib --target "$target" -- "$@"
}

[ "$(uname -m)" != aarch64 ] || { say "this processor has NEON: the other tests have run it"; exit 0; }
has_emulator || install_emulator || true
has_emulator || skip "install qemu-user, gcc-aarch64-linux-gnu and libc6-dev-arm64-cross"
choose_compiler || skip "run: rustup target add $target"
say "with dot products, and the kernels without"
WEIR_ISA=neon-dot run_on max
say "without"
# What the kernels compute was compared above. Here they run once more on a processor that refuses the instructions they may not have.
WEIR_ISA=neon run_on cortex-a72 --skip every_int8_product --skip a_row_of_a_product
! WEIR_ISA=neon-dot run_on cortex-a72 weir_isa >/dev/null 2>&1 ||
    die "WEIR_ISA=neon-dot was taken by a processor without dot products"
