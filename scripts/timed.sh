#!/usr/bin/env bash
# The shell of `make` in a CI run: runs one line of a recipe with bash, and adds its CPU seconds (user + system, its children included),
# wall seconds and text to the file $STEPS.
started=$EPOCHREALTIME
bash "$@"
status=$?
ended=$EPOCHREALTIME
# Not in a pipe: a subshell has no children yet. The second line is that of the children: 1m2.345s 0m6.789s
times >"$STEPS.times"
awk -v wall="$started $ended" -v text="${!#}" '
    function seconds(time, part) { split(time, part, /[ms]/); return part[1] * 60 + part[2] }
    NR == 2 { split(wall, at, " "); gsub(/\n/, " ", text)
              printf "%.1f %.1f %s\n", seconds($1) + seconds($2), at[2] - at[1], substr(text, 1, 120) }' "$STEPS.times" >>"$STEPS"
exit "$status"
