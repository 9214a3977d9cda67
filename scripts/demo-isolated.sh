#!/bin/sh
# The isolated half of ./demo: install, ask, audit, damage, audit. Runs without a network.
set -eu
run=$1
media=$(echo "$run"/media/*)
host=$PWD/$run/host
control=$host/bin/bundlectl

say() {
  printf '\n== %s\n' "$*"
}

finish() {
  [ ! -x "$control" ] || "$control" stop
}
trap finish EXIT

# As on a bare host: a clean environment, none of the builder's variables.
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="${HOME:-/}" TERM="${TERM:-dumb}" \
  sh "$media/install.sh" --prefix "$host" --port "${DEMO_PORT:-8000}"

say "ask with thinking on, then with thinking off (the prompt tokens prove the switch)"
"$control" ask "What crosses an air gap?" --thinking on --max-tokens 24
"$control" ask "What crosses an air gap?" --thinking off --max-tokens 24

say "audit the installation and the medium"
"$control" audit
sh "$media/install.sh" audit

say "stop, flip one byte of the model, audit again"
"$control" stop
weights=$(echo "$host"/models/*/model.safetensors)
cp "$weights" "$run/kept"
byte=$(od -An -tu1 -j 200000 -N 1 "$weights" | tr -d ' ')
# shellcheck disable=SC2059  # the octal escape is the point
{
  head -c 200000 "$run/kept"
  printf "\\$(printf %03o $((byte ^ 1)))"
  tail -c +200002 "$run/kept"
} >"$weights"
status=0
"$control" audit || status=$?
cp "$run/kept" "$weights"
rm "$run/kept"
if [ "$status" -ne 1 ]; then
  echo "error: the audit of a damaged file ended with $status, not with 1" >&2
  exit 1
fi
echo "(exit $status, as documented: integrity failure)"

say "what landed where"
du -sh "$media"/* "$host"/* 2>/dev/null
echo
echo "start it again:  '$control' start      remove everything:  rm -rf '$run'"
