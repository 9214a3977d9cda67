#!/bin/sh
# Checks this bundle and installs it. Needs sh, tar, gzip and coreutils; no network, no Python.
#
#   sh install.sh [--prefix DIR] [--port N] [--foreground] …   install, start, prove with one answer
#   sh install.sh COMMAND …                                    the same as `bundlectl COMMAND …`
#   sh install.sh --help
#
# Trust: SHA256SUMS covers this script; this script names the manifest and the small Python runtime
# by sha256; the manifest names every other byte. The runtime is checked before anything in it runs,
# and reads the archive once, checking and unpacking in the same pass.
#
# Lines up to the first check end in '#', so that they still work when a medium turned LF into CR LF.
case "$(head -n 1 "$0")" in *"$(printf '\r')") #
  echo "error: install.sh: its lines end in CR LF" >&2 #
  echo "  why:  the medium or the way there treated it as text (Windows, FTP, mail)" >&2 #
  echo "  mend: copy the folder again in binary mode" >&2 #
  exit 1 #
;; esac #

set -eu
umask 022
LC_ALL=C
export LC_ALL
unset LD_LIBRARY_PATH LD_PRELOAD LD_AUDIT PYTHONPATH PYTHONHOME CDPATH ENV BASH_ENV IFS

# Filled in by `bundle create`.
ARCHIVE=@ARCHIVE@
MANIFEST_SHA256=@MANIFEST_SHA256@
RUNTIME_SHA256=@RUNTIME_SHA256@
RUNTIME_SIZE=@RUNTIME_SIZE@
GLIBC=@GLIBC@

case $0 in
  */*) here=${0%/*} ;;
  *) here=. ;;
esac
here=$(cd -- "${here:-/}" && pwd -P)
stage=

fail() { # CODE WHAT WHY MEND
  echo "error: $2" >&2
  [ -z "$3" ] || echo "  why:  $3" >&2
  [ -z "$4" ] || echo "  mend: $4" >&2
  exit "$1"
}

damaged() { # WHAT WHY
  fail 1 "$1" "$2" "copy the bundle from its source to the medium again"
}

cleanup() {
  [ -z "$stage" ] || rm -rf -- "$stage"
}

check_tools() {
  missing=
  for tool in tar gzip sha256sum mktemp mkdir rm head uname printf wc; do
    command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
  done
  [ -z "$missing" ] ||
    fail 5 "this host lacks:$missing" "" "install GNU coreutils, tar and gzip, or BusyBox"
}

check_host() {
  [ "$(uname -s) $(uname -m)" = "Linux x86_64" ] ||
    fail 5 "this host is $(uname -s) $(uname -m); the bundle is for Linux x86_64" "" ""
  [ -e /proc/self/exe ] ||
    fail 5 "/proc is not mounted" "programs find their own libraries through it" \
      "mount -t proc proc /proc"
}

digest_of() { # FILE → sha256 in $digest
  digest=$(sha256sum <"$1") || fail 4 "$1 can't be read" "" "check the medium"
  digest=${digest%% *}
}

# Whether a name is the archive, or one of its volumes.
is_piece() {
  case $1 in
    "$ARCHIVE" | "${ARCHIVE%.000}".[0-9][0-9][0-9]) return 0 ;;
    *) return 1 ;;
  esac
}

# `sha256sum -c` ignores comments, links and unlisted files; this does not.
check_list() {
  list="$here/SHA256SUMS"
  [ -f "$list" ] && [ ! -h "$list" ] || damaged "SHA256SUMS: missing" ""
  names="/"
  while IFS= read -r line || [ -n "$line" ]; do
    sum=${line%%  *}
    name=${line#*  }
    case $line in
      *"$(printf '\r')"*) damaged "SHA256SUMS: its lines end in CR LF" "" ;;
    esac
    case $name in
      '' | *[!A-Za-z0-9_.+@-]* | [.+@-]* | SHA256SUMS | SHA256SUMS.sig)
        damaged "SHA256SUMS: malformed line: $line" "" ;;
    esac
    case $sum in
      *[!0-9a-f]*) damaged "SHA256SUMS: malformed line: $line" "" ;;
    esac
    [ "${#sum}" -eq 64 ] && [ "$sum  $name" = "$line" ] ||
      damaged "SHA256SUMS: malformed line: $line" ""
    case $names in
      */"$name"/*) damaged "SHA256SUMS: names $name twice" "" ;;
    esac
    names="$names$name/"
    [ ! -h "$here/$name" ] || damaged "$name: a link where a file has to be" ""
    # The archive is hashed while it is unpacked; reading it twice would double the time. All but
    # the first of its volumes may lie elsewhere.
    if [ "$name" != "$ARCHIVE" ] && is_piece "$name"; then continue; fi
    [ -f "$here/$name" ] || damaged "$name: missing on the medium" ""
    [ "$name" != "$ARCHIVE" ] || continue
    digest_of "$here/$name"
    [ "$digest" = "$sum" ] || damaged "$name: altered" "expected sha256 $sum, found $digest"
  done <"$list"
  for name in install.sh "$ARCHIVE"; do
    case $names in
      */"$name"/*) ;;
      *) damaged "SHA256SUMS: has no line for $name" "" ;;
    esac
  done
  for file in "$here"/* "$here"/.[!.]* "$here"/..?*; do
    name=${file##*/}
    [ -e "$file" ] || [ -h "$file" ] || continue
    case "$name" in SHA256SUMS | SHA256SUMS.sig) continue ;; esac
    case $names in
      */"$name"/*) ;;
      *) damaged "$name: lies beside the bundle and is not in SHA256SUMS" "" ;;
    esac
  done
}

# Unpacks the runtime into the first folder that has room and lets programs run.
start_runtime() {
  reasons=
  for folder in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm "${HOME:-/}"; do
    [ -d "$folder" ] && [ -w "$folder" ] || continue
    stage=$(mktemp -d "$folder/vllm-bundle.XXXXXX" 2>/dev/null) || continue
    # tar's own status does not matter: what counts is the digest of what came out.
    tar -xo -f "$here/$ARCHIVE" -C "$stage" runtime.tar.gz 2>/dev/null || true
    size=$(wc -c 2>/dev/null <"$stage/runtime.tar.gz") || size=0
    if [ "$size" -ne "$RUNTIME_SIZE" ]; then
      reasons="$reasons $folder (no room, or the archive is cut off);"
    else
      digest_of "$stage/runtime.tar.gz"
      [ "$digest" = "$RUNTIME_SHA256" ] || damaged "$ARCHIVE: runtime.tar.gz in it is altered" \
        "expected sha256 $RUNTIME_SHA256, found $digest"
      mkdir "$stage/runtime"
      if gzip -dc <"$stage/runtime.tar.gz" | tar -xo -f - -C "$stage/runtime" 2>/dev/null; then
        if output=$("$stage/runtime/bin/python" -I -B -c pass 2>&1); then
          rm -f "$stage/runtime.tar.gz"
          return 0
        fi
        case $output in
          *GLIBC* | *"not found"* | *"cannot open shared object"*)
            fail 5 "the bundle's programs don't run here: $output" \
              "they need glibc $GLIBC or newer" "make the bundle with --glibc set to this host's" ;;
        esac
        reasons="$reasons $folder ($output);"
      else
        reasons="$reasons $folder (no room for 150 MB);"
      fi
    fi
    cleanup
    stage=
  done
  fail 4 "no folder to start from:$reasons" \
    "a folder is needed that is writable, has 150 MB and is not mounted noexec" \
    "set TMPDIR to such a folder"
}

main() {
  check_tools
  check_host
  check_list
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  start_runtime
  # From here on bundlectl takes the signals, and removes the folder when it ends.
  trap - EXIT HUP
  trap '' INT TERM
  exec "$stage/runtime/bin/python" -I -B -X utf8 -m bundlectl \
    --stage "$stage" --media "$here" --manifest "$MANIFEST_SHA256" "$@"
}

main "$@"
