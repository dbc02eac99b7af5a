#!/usr/bin/env bash
# Installs what a build and the tests need and what is missing: system packages, a Python environment, packages that the tests
# import, the Python client, clients of other makers, Schemathesis, a browser, the default model; with arguments only the steps named. A second run finds everything
# and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

missing_packages() {
    has cc || echo gcc libc6-dev
    has make || echo make
    has pkg-config || echo pkg-config
    has curl || echo curl
    has strace || echo strace           # the tests look at the system calls that a write makes
    has git || echo git
    has sqlite3 || echo sqlite3         # the documented backup is made with it
    has python3 || echo python3
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || echo postgresql
    has redis-server || echo redis-server
    has nginx || [ -x /usr/sbin/nginx ] || echo nginx-light    # before the gateways of docs/scale.md
    { has python3 && python3 -c 'import ensurepip, venv'; } >/dev/null 2>&1 || echo python3-venv
    [ -e /etc/ssl/certs/ca-certificates.crt ] || [ "$(uname)" != Linux ] || echo ca-certificates
}

install_packages() {
    local packages=("$@") sudo=()
    has apt-get || die "please install: ${packages[*]} (this system has no apt-get, so they can't be installed for you)"
    if [ "$(id -u)" -ne 0 ]; then
        has sudo || die "please run as root: apt-get install ${packages[*]} (you are not root and there is no sudo)"
        sudo=(sudo)
    fi
    say "installing ${packages[*]}"
    "${sudo[@]}" apt-get update -qq || die "apt-get update failed; check the network and run this again"
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}" ||
        die "apt-get could not install ${packages[*]}; install them by hand and run this again"
}

check_rust() {
    has cargo || [ ! -x "$HOME/.cargo/bin/cargo" ] ||
        die "cargo is in ~/.cargo/bin but not on your PATH; run: . \"\$HOME/.cargo/env\""
    has cargo || die "cargo was not found; install Rust with rustup (the version is pinned in rust-toolchain.toml)"
    # With rustup, this also fetches the pinned toolchain the first time.
    cargo --version >/dev/null || die "cargo does not start here; run 'rustup toolchain install' in this folder"
}

make_python_environment() {
    # A folder that lost its interpreter, or was copied from elsewhere, is made anew.
    [ -x .venv/bin/python ] && .venv/bin/python -c 'import pip' 2>/dev/null && return
    say "making the Python environment .venv"
    python3 -m venv --clear .venv || die "python3 -m venv failed; install python3-venv and run this again"
}

install_python_packages() {
    local wanted=scripts/requirements.txt installed=.venv/requirements.txt
    cmp -s "$wanted" "$installed" && return
    say "installing Python packages that the tests call"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary=:all: --no-deps --requirement "$wanted" ||
        die "pip could not install $wanted; check the network and pip's index settings, and run this again"
    cp "$wanted" "$installed"
}

# The tests and the examples of the pages import the client from its sources.
install_client() {
    local wanted=clients/python/pyproject.toml installed=.venv/client.toml
    cmp -s "$wanted" "$installed" && return
    say "installing the Python client into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable clients/python ||
        die "pip could not install clients/python; run 'scripts/setup.sh python test_packages' and run this again"
    cp "$wanted" "$installed"
}

# The clients of other makers that the tests run, 300 MB. They have an environment of their own, because some of them need older packages.
install_clients() {
    local cache=.cache/clients wanted=clients/conformance
    local pip=(.venv/bin/python -m pip --python "$cache/venv/bin/python" install --quiet --disable-pip-version-check --no-compile
        --only-binary=:all: --no-deps)
    cat "$wanted"/requirements*.txt "$wanted/package.json" | cmp -s - "$cache/installed.txt" && return
    has npm || install_packages nodejs npm      # one of them is for Node
    say "installing clients of other makers into $cache"
    rm -rf "$cache"
    python3 -m venv --without-pip "$cache/venv" || die "python3 -m venv failed; install python3-venv and run this again"
    "${pip[@]}" --requirement "$wanted/requirements.txt" &&
        "${pip[@]}" --target "$cache/newer" --requirement "$wanted/requirements_newer.txt" &&
        "${pip[@]}" --target "$cache/older" --requirement "$wanted/requirements_older.txt" ||
        die "pip could not install $wanted/requirements*.txt; check the network and pip's index settings, and run this again"
    cp "$wanted/package.json" "$cache/package.json"
    npm install --prefix "$cache" --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error >/dev/null ||
        die "npm could not install $wanted/package.json; check the network and npm's registry settings, and run this again"
    cat "$wanted"/requirements*.txt "$wanted/package.json" >"$cache/installed.txt"
}

# What sends generated requests to every route.
install_contract() {
    local cache=.cache/contract wanted=clients/contract/requirements.txt
    cmp -s "$wanted" "$cache/installed.txt" && return
    say "installing Schemathesis into $cache"
    rm -rf "$cache"
    python3 -m venv --without-pip "$cache/venv" || die "python3 -m venv failed; install python3-venv and run this again"
    .venv/bin/python -m pip --python "$cache/venv/bin/python" install --quiet --disable-pip-version-check --no-compile \
        --only-binary=:all: --no-deps --requirement "$wanted" ||
        die "pip could not install $wanted; check the network and pip's index settings, and run this again"
    cp "$wanted" "$cache/installed.txt"
}

# Some 300 MB that only the tests of the pages need.
install_browser() {
    has chromium || install_packages chromium
}

install_system() {
    mapfile -t packages < <(missing_packages | tr ' ' '\n')
    [ ${#packages[@]} -eq 0 ] || install_packages "${packages[@]}"
    check_rust
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "Python 3.11 or newer is needed"
}

[ $# -gt 0 ] || set -- system python test_packages client clients contract browser model
for step in "$@"; do
    case $step in
        system) install_system ;;
        python) make_python_environment ;;
        test_packages) install_python_packages ;;
        client) install_client ;;
        clients) install_clients ;;
        contract) install_contract ;;
        browser) install_browser ;;
        model) .venv/bin/python scripts/get_model.py ;;
        *) die "there is no step \`$step\`: system, python, test_packages, client, clients, contract, browser, model" ;;
    esac
done
