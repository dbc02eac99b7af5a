#!/usr/bin/env bash
# Runs the measurements of bench/: all of them but `published`, or those that are named.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob

scripts=()
for file in bench/*.sh bench/*.py; do
    name=$(basename "${file%.*}")
    # it runs the others, at other sizes
    [ $# -eq 0 ] && [ "$name" = published ] && continue
    [ $# -gt 0 ] && [[ " $* " != *" $name "* ]] || scripts+=("$file")
done
if [ ${#scripts[@]} -eq 0 ]; then
    echo "bench: no script in bench/ is called ${*:-anything}" >&2
    exit 1
fi
echo "bench: $(nproc) cores"
for script in "${scripts[@]}"; do
    echo "== $script"
    case $script in
        *.py) .venv/bin/python "$script" ;;
        *) bash "$script" ;;
    esac
done
