#!/usr/bin/env bash
# Builds what is released, in dist/: the binary with its symbol file, completions and manual pages, a wheel, the wheel of the
# Python client, a .deb, a tar archive, a bill of materials and checksums. PROFILE=dev builds the same from an unoptimised
# binary, to test this script.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PROFILE=${PROFILE:-dist}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
target=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-target}/$target/$([ "$PROFILE" = dev ] && echo debug || echo "$PROFILE")
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) # files in archives get the time of the commit
export SOURCE_DATE_EPOCH

say() { printf 'dist: %s\n' "$*"; }

# Debuggers, perf and the backtraces of panics find the symbol file beside the binary, by a link in it; a server runs without it.
build_binary() {
    if [ "$PROFILE" = dist ]; then
        scripts/pgo.sh
        RUSTFLAGS=$(<"${CARGO_TARGET_DIR:-target}/pgo/rustflags")
        export RUSTFLAGS # maturin then finds the same binary
    else
        cargo build --profile "$PROFILE" --locked -p weir --bin weir --target "$target"
    fi
    objcopy --only-keep-debug --compress-debug-sections "$folder/weir" dist/weir.debug
    objcopy --strip-all --add-gnu-debuglink=dist/weir.debug "$folder/weir" dist/weir # the link has the name alone
}

write_share() {
    mkdir -p dist/share/completions
    dist/weir completions bash >dist/share/completions/weir.bash
    dist/weir completions zsh >dist/share/completions/_weir
    dist/weir completions fish >dist/share/completions/weir.fish
    dist/weir man dist/share/man
    .venv/bin/python scripts/sbom.py --target "$target" >dist/share/weir.cdx.json
    cp dist/share/weir.cdx.json "dist/weir-$version.cdx.json"
}

# maturin takes the binary that cargo has built, checks which manylinux tag it can have, and writes the metadata. The
# binary in the wheel is then replaced by the one without line numbers.
build_wheel() {
    local unpacked
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary=:all: --requirement scripts/dist_requirements.txt
    (cd packaging/python && ../../.venv/bin/maturin build --quiet --profile "$PROFILE" --locked --target "$target" --out ../../dist/wheel)
    .venv/bin/python -m wheel unpack --dest dist/wheel dist/wheel/weir-*.whl
    unpacked=dist/wheel/weir-$version
    install -m 0755 dist/weir "$unpacked/weir-$version.data/scripts/weir"
    .venv/bin/python -m wheel pack --dest-dir dist "$unpacked"
    rm -r dist/wheel
}

# It has no compiled code: any Python from 3.9 on takes it.
build_client() {
    .venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist clients/python
}

build_archive() {
    local name=weir-$version-$target
    tar --create --gzip --file "dist/$name.tar.gz" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --transform "s,^dist/,," --transform "s,^,$name/," dist/weir dist/share LICENSE README.md
}

rm -rf dist
mkdir -p dist
say "the binary"
build_binary
say "completions, manual pages, bill of materials"
write_share
say "the wheel"
build_wheel
say "the wheel of the Python client"
build_client
say "the .deb"
packaging/debian/build.sh dist/weir dist/share dist "$version"
say "the archive"
build_archive
(cd dist && sha256sum -- weir weir.debug ./*.whl ./*.deb ./*.tar.gz ./*.cdx.json | sed 's,  \./,  ,' >SHA256SUMS)
ls -l dist
