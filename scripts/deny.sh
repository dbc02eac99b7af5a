#!/usr/bin/env bash
# Runs the named checks of cargo-deny by deny.toml, all of them without arguments. Where cargo-deny is not installed, it is
# built into .cache once: without optimisation, which takes about a minute instead of several.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly VERSION=0.20.2

deny=$(command -v cargo-deny || echo "$PWD/.cache/cargo-deny/bin/cargo-deny")
if ! [ -x "$deny" ]; then
    echo "deny: building cargo-deny $VERSION into .cache/cargo-deny"
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --version "$VERSION" --root .cache/cargo-deny cargo-deny
fi
exec "$deny" --locked check "$@"
