#!/usr/bin/env bash
# Tries what `make dist` built, as a new user would: the wheel in a new virtual environment, the .deb and the files of both
# images under chroot. Each has to answer a question from the user's own files, with a citation, within a minute. Prints seconds
# and bytes, and checks the limits on sizes. Needs root, for chroot, and models/all-MiniLM-L6-v2, which stands in for the hub.
#   scripts/test_dist.sh [wheel] [deb] [slim] [full] [size]    all without arguments
# DIST and MODEL name other folders.
set -euo pipefail
cd "$(dirname "$0")/.."

DIST=$(realpath "${DIST:-dist}")
MODEL=$(realpath "${MODEL:-models/all-MiniLM-L6-v2}")
readonly DIST MODEL
readonly SECONDS_MAX=60 BINARY_BYTES_MAX=45000000 SLIM_BYTES_MAX=55000000 FULL_BYTES_MAX=145000000
readonly ANSWER="The spillway gate opens when the gauge shows 4.2 metres."
readonly QUESTION="when do we let water over the dam"

say() { printf '%-6s %s\n' "$@"; }
die() { printf 'test_dist: %s\n' "$*" >&2; exit 1; }
bytes_in() { find "$1" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum + 0 }'; }
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

check_bytes() { # name bytes limit
    say "$1" "$2 bytes (at most $3)"
    [ "$2" -le "$3" ] || die "$1 is too large"
}

# A folder with files of several kinds, of which one has the answer.
write_notes() {
    mkdir -p "$work/notes/river"
    printf '# Lunch\n\nThe canteen serves soup on Mondays and pasta on Fridays.\n' >"$work/notes/lunch.md"
    printf 'The old mill was built in 1884 and burnt down in 1911.\n' >"$work/notes/mill.txt"
    printf '<title>Operation</title><nav>Home</nav><main><p>%s</p></main>\n' "$ANSWER" >"$work/notes/river/gate.html"
    chmod -R a+rX "$work/notes"
}

# Serves the model's folder by the paths of a hub.
start_hub() {
    mkdir -p "$work/hub/sentence-transformers/all-MiniLM-L6-v2/resolve"
    ln -s "$MODEL" "$work/hub/sentence-transformers/all-MiniLM-L6-v2/resolve/main"
    hub_port=$(free_port)
    python3 -m http.server --bind 127.0.0.1 --directory "$work/hub" "$hub_port" >/dev/null 2>&1 &
    hub=$!
}

stop() { # process
    kill -TERM "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

# Asks until there is an answer, for at most a minute; `$@` is the command before the arguments of `weir search`.
ask() {
    local begun=$1 reply=
    shift
    until reply=$("$@" search "$QUESTION" --top-k 1 --json 2>"$work/search.err") && grep -qF "$ANSWER" <<<"$reply"; do
        [ $((SECONDS - begun)) -lt $SECONDS_MAX ] || die "no answer within $SECONDS_MAX s: $reply $(cat "$work/search.err")"
        sleep 0.2
    done
    python3 - "$reply" "$ANSWER" <<'PYTHON'
import json, sys
citation = json.loads(sys.argv[1])["results"][0]["citation"]
assert citation["document_id"] == "river/gate.html" and citation["quote"] == sys.argv[2], citation
PYTHON
}

seconds_since() { awk -v now="$EPOCHREALTIME" -v then="$1" 'BEGIN { printf "%.1f s", now - then }'; }

# Two commands: `pip install`, and `weir demo` with the user's files; the model is fetched between them.
test_wheel() {
    local begun=$SECONDS start=$EPOCHREALTIME port server weir
    port=$(free_port)
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$DIST"/weir-*.whl
    weir=(env -i -C "$work" PATH="$work/venv/bin" WEIR_URL="http://127.0.0.1:$port" WEIR_HUB_URL="http://127.0.0.1:$hub_port" weir)
    "${weir[@]}" model pull all-MiniLM-L6-v2 >"$work/pull.log"
    grep -q "fetching sentence-transformers/all-MiniLM-L6-v2" "$work/pull.log" || die "the pull doesn't say what it fetches"
    "${weir[@]}" demo notes --listen "127.0.0.1:$port" >"$work/demo.log" 2>&1 &
    server=$!
    ask "$begun" "${weir[@]}"
    stop "$server"
    grep -q "Three things to try" "$work/demo.log" || die "the demo doesn't say what to try: $(cat "$work/demo.log")"
    say wheel "$(seconds_since "$start") from pip install to the answer; $(cat "$DIST"/weir-*.whl | wc -c) bytes"
}

# A throw-away view of this system's files, in which the package is installed by dpkg. Home folders are hidden.
test_deb() {
    local start=$EPOCHREALTIME port
    port=$(free_port)
    unshare --mount bash -euo pipefail -c '
        work=$1 deb=$2
        mkdir -p "$work/tmpfs"
        mount -t tmpfs tmpfs "$work/tmpfs"
        mkdir "$work/tmpfs/upper" "$work/tmpfs/overlay" "$work/tmpfs/root"
        root=$work/tmpfs/root
        mount -t overlay overlay -o "lowerdir=/,upperdir=$work/tmpfs/upper,workdir=$work/tmpfs/overlay" "$root"
        mount -t proc proc "$root/proc"
        mount --bind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/root"
        mount -t tmpfs tmpfs "$root/run"
        mkdir "$root/run/notes"
        cp -r "$work/notes/." "$root/run/notes"
        cp "$deb" "$root/run/weir.deb"
        shift 2
        chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail -c "$1" _ "${@:2}"
    ' _ "$work" "$(echo "$DIST"/*.deb)" '
        port=$1 hub=$2 question=$3
        dpkg -i /run/weir.deb
        as_weir=(setpriv --reuid weir --regid weir --clear-groups env -C /var/lib/weir)
        "${as_weir[@]}" weir model pull all-MiniLM-L6-v2 --to /var/lib/weir/models/all-MiniLM-L6-v2 --hub "$hub"
        # what the unit starts, on another port
        "${as_weir[@]}" $(sed -n "s/^ExecStart=//p" /usr/lib/systemd/system/weir.service) --listen "127.0.0.1:$port" &
        server=$!
        export WEIR_URL=http://127.0.0.1:$port
        weir ingest /run/notes
        weir search "$question" --top-k 1 --json >/run/reply.json
        kill -TERM "$server"
        wait "$server"
        man --path >/dev/null 2>&1 && man -w weir weir-ingest >/dev/null
        bash -c "source /usr/share/bash-completion/completions/weir && complete -p weir" >/dev/null
        dpkg --purge weir
        ! command -v weir
        [ ! -e /var/lib/weir ]
        echo "REPLY $(cat /run/reply.json)"
    ' "$port" "http://127.0.0.1:$hub_port" "$QUESTION" >"$work/deb.log" 2>&1 || die "the package failed: $(tail -20 "$work/deb.log")"
    grep -q "^REPLY.*\"document_id\":\"river/gate.html\".*\"quote\":\"$ANSWER\"" "$work/deb.log" || die "no citation: $(tail -3 "$work/deb.log")"
    say deb "$(seconds_since "$start") from dpkg -i to the answer, and purged again; $(cat "$DIST"/*.deb | wc -c) bytes"
}

# The files of an image under chroot, with the user, variables and command of the Dockerfile.
test_image() { # name limit variables, and the model for the image with one
    local name=$1 limit=$2 model=${3:-} begun=$SECONDS start=$EPOCHREALTIME root=$work/$1 port server run
    port=$(free_port)
    packaging/container/rootfs.sh "$DIST/weir" "$root" ${model:+"$model"}
    check_bytes "$name" "$(bytes_in "$root")" "$limit"
    run=(chroot --userspec=65532:65532 "$root" /usr/bin/weir)
    export WEIR_LISTEN=0.0.0.0:$port WEIR_URL=http://127.0.0.1:$port WEIR_DATA_DIR=/var/lib/weir/data WEIR_MODEL=/usr/share/weir/models/all-MiniLM-L6-v2
    if [ -z "$model" ]; then
        WEIR_MODEL=/var/lib/weir/models/all-MiniLM-L6-v2
        "${run[@]}" model pull all-MiniLM-L6-v2 --to "$WEIR_MODEL" --hub "http://127.0.0.1:$hub_port" >/dev/null
    fi
    "${run[@]}" serve --insecure-no-auth >"$work/$name.log" 2>&1 &
    server=$!
    mkdir "$root/notes" # as a volume
    cp -r "$work/notes/." "$root/notes"
    "${run[@]}" ingest /notes >/dev/null || die "$(cat "$work/$name.log")"
    ask "$begun" "${run[@]}"
    stop "$server"
    unset WEIR_LISTEN WEIR_URL WEIR_DATA_DIR WEIR_MODEL
    say "$name" "$(seconds_since "$start") from the files to the answer"
}

[ "$(id -u)" -eq 0 ] || die "run this as root: it uses chroot"
work=$(mktemp -d)
chmod 755 "$work"
trap 'stop "${hub:-}"; rm -rf "$work"' EXIT
write_notes
start_hub
[ $# -gt 0 ] || set -- size wheel deb slim full
for part in "$@"; do
    case $part in
        size) check_bytes binary "$(stat -c %s "$DIST/weir")" $BINARY_BYTES_MAX ;;
        wheel) test_wheel ;;
        deb) test_deb ;;
        slim) test_image slim $SLIM_BYTES_MAX ;;
        full) test_image full $FULL_BYTES_MAX "$MODEL" ;;
        *) die "there is no part \`$part\`: size, wheel, deb, slim, full" ;;
    esac
done
