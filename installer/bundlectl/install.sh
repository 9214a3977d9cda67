#!/bin/sh
# Checks this bundle and installs it. Needs sh, tar, gzip and coreutils; no network, no Python.
#
#   sh install.sh [--prefix DIR] [--port N] [--foreground] …   install, start, prove with one answer
#   sh install.sh --into-python PATH …                         an overlay, on that Python of the host
#   sh install.sh COMMAND …                                    the same as `bundlectl COMMAND …`
#   sh install.sh --help
#   sh install.sh restore --to FOLDER …    a whole copy of a damaged medium, if it has parity
#   sh restore.sh --to FOLDER …            the same where install.sh is damaged: a copy of this file
#
#   --key FILE            check SHA256SUMS.sig with this public key: PEM, .pub or allowed_signers
#                         (PREFIX/etc/trusted-key.pem or PREFIX/etc/allowed_signers otherwise)
#   --trust-digest HEX    the sha256 that SHA256SUMS has to have
#
# Trust: SHA256SUMS covers this script; this script names the manifest and the small Python runtime
# by sha256; the manifest names every other byte. The runtime is checked before anything in it runs,
# and reads the archive once, checking and unpacking in the same pass.
#
# A script can't vouch for itself: whoever can alter SHA256SUMS can alter this. Who trusts neither
# the medium nor the way that it came runs one of these first, by hand, and then `sha256sum -c`:
#
#   openssl dgst -sha256 -verify PUB.pem -signature SHA256SUMS.sig SHA256SUMS
#   ssh-keygen -Y verify -f ALLOWED -I WHO -n vllm-bundle -s SHA256SUMS.sig <SHA256SUMS
#
# Lines up to the first check end in '#', so that they still work when a medium turned LF into CR LF.
case "$(head -n 1 "$0")" in *"$(printf '\r')") #
  echo "error: install.sh: its lines end in CR LF" >&2 #
  echo "  why:  the medium or the way there treated it as text (Windows, FTP, mail)" >&2 #
  echo "  mend: copy the folder again in binary mode" >&2 #
  exit 1 #
;; esac #

set -eu
# What changes below, for preflight to tell: of variables their names alone, values may be secrets.
BUNDLECTL_CALLER="umask=$(umask) locale=${LC_ALL:-${LC_CTYPE:-${LANG:-}}} \
${LD_LIBRARY_PATH:+LD_LIBRARY_PATH} ${LD_PRELOAD:+LD_PRELOAD} ${LD_AUDIT:+LD_AUDIT} \
${PYTHONPATH:+PYTHONPATH} ${PYTHONHOME:+PYTHONHOME}"
export BUNDLECTL_CALLER
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
base=${ARCHIVE%.000}
base=${base%.tar}
self=install.sh
[ "${0##*/}" != restore.sh ] || self=restore.sh
restoring=
cr=$(printf '\r')
newline='
'

fail() { # CODE WHAT WHY MEND
  echo "error: $2" >&2
  [ -z "$3" ] || echo "  why:  $3" >&2
  [ -z "$4" ] || echo "  mend: $4" >&2
  exit "$1"
}

damaged() { # WHAT WHY
  mend="copy the bundle from its source to the medium again"
  # Of a bundle with parity nearly everything can be mended here.
  if [ -e "$here/restore.sh" ]; then
    mend="sh install.sh restore --to FOLDER (or: sh restore.sh --to FOLDER), or $mend"
  fi
  fail 1 "$1" "$2" "$mend"
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

# Where an operator keeps the keys that he trusts; the defaults are those of bundlectl.
find_key() { # FORM → $key, if there is one
  if [ -z "$prefix" ]; then
    uid=
    while read -r name _ uid _; do
      [ "$name" != Uid: ] || break
    done </proc/self/status
    case $uid,${XDG_DATA_HOME:-},${HOME:-} in
      0,*) prefix=/opt/vllm-bundle ;;
      *,/*,*) prefix=$XDG_DATA_HOME/vllm-bundle ;;
      *) prefix=${HOME:-}/.local/share/vllm-bundle ;;
    esac
  fi
  for name in trusted-key.pem allowed_signers; do
    [ -e "$prefix/etc/$name" ] || [ -h "$prefix/etc/$name" ] || continue
    key=$prefix/etc/$name
    case $1,$name in openssl,*.pem | ssh-keygen,allowed_signers) return ;; esac
  done
}

look_at_key() { # → $kind: pem, pub or allowed; $lines: an allowed_signers file of a .pub file
  kind='' lines=
  case $key in -*) key=./$key ;; esac
  [ -f "$key" ] && [ -r "$key" ] || fail 2 "$key: no key file that can be read" "" \
    "name the file of a public key with --key"
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
      *"PRIVATE KEY-----"*)
        fail 2 "$key: holds a private key; a public one is needed here" \
          "a private key belongs on the machine that signs, and nowhere else" \
          "openssl pkey -in $key -pubout, or: ssh-keygen -y -f $key" ;;
      "-----BEGIN PUBLIC KEY-----"*) kind=pem ;;
      "#"*) continue ;;
      "ssh-"[er]*" "* | "ecdsa-sha2-"*" "* | "sk-"*" "*)
        kind=pub lines="${lines}vllm-bundle $line$newline" ;;
      *" ssh-"[er]*" "* | *" ecdsa-sha2-"*" "* | *" sk-"*" "*) kind=allowed ;;
      *) continue ;;
    esac
    case $kind,$line in
      pem,*) ;;
      *,*"$cr") fail 2 "$key: its lines end in CR LF" "" "copy it again in binary mode" ;;
    esac
  done <"$key"
}

untrusted() { # WHY
  fail 1 "SHA256SUMS.sig: the signature is not good" "$1" \
    "don't use the bundle; get it and the public key again, each by its own road"
}

# Signatures are checked by what the host has, never by anything from the medium.
need_tool() { # NAME
  case $(command -v "$1" 2>/dev/null) in
    "$here"/*) ;;
    /*) return 0 ;;
  esac
  [ -z "$trusted" ] || return 1
  fail 5 "this host has no $1, and the signature can be checked by nothing else" "" \
    "compare the digest of SHA256SUMS instead: --trust-digest HEX"
}

check_openssl() {
  openssl pkey -pubin -in "$key" -noout >/dev/null 2>&1 ||
    fail 2 "$key: openssl can't read it as a public key" "" "copy it again in binary mode"
  # openssl does not read on after the longest that a signature by P-256 can be.
  [ "$(wc -c <"$signature")" -le 72 ] || untrusted "it is too long for one by a P-256 key"
  output=$(openssl dgst -sha256 -verify "$key" -signature "$signature" "$list" 2>/dev/null) &&
    [ "$output" = "Verified OK" ] ||
    untrusted "another key made it, or it or SHA256SUMS was altered ($key, openssl)"
  verified="Good signature by the key in $key (openssl)"
}

check_ssh() {
  signers=$key who=vllm-bundle
  if [ "$kind" = pub ]; then
    stage=$(mktemp -d "${TMPDIR:-/tmp}/vllm-bundle.XXXXXX") ||
      fail 4 "no folder for a temporary file" "" "set TMPDIR to a folder that is writable"
    signers=$stage/allowed_signers
    printf '%s' "$lines" >"$signers"
  else
    who=$(ssh-keygen -Y find-principals -s "$signature" -f "$signers" 2>&1) ||
      ssh_failed "$who"
    who=${who%%[",$newline"]*}
  fi
  verified=$(ssh-keygen -Y verify -f "$signers" -I "$who" -n vllm-bundle -s "$signature" \
    <"$list" 2>&1) || ssh_failed "$verified"
  cleanup
  stage=
}

ssh_failed() { # OUTPUT
  case $1 in
    *" option -- "*) fail 5 "this host's ssh-keygen is too old to check signatures" \
      "OpenSSH 8.2 and newer do" "compare the digest of SHA256SUMS: --trust-digest HEX" ;;
  esac
  untrusted "ssh-keygen, with $key: ${1%%"$newline"*}"
}

# The one thing that everything else follows from. Nothing else of the medium is read before.
check_trust() {
  signature=$here/SHA256SUMS.sig trusted='' verified=
  for file in "$list" "$signature"; do
    [ ! -h "$file" ] || damaged "${file##*/}: a link where a file has to be" ""
    [ -f "$file" ] || [ ! -e "$file" ] || damaged "${file##*/}: not a regular file" ""
  done
  [ -f "$list" ] || damaged "SHA256SUMS: missing" ""
  if [ -n "$digest_given" ]; then
    case $wanted in *[!0-9a-f]*) wanted= ;; esac
    [ "${#wanted}" -eq 64 ] || fail 2 "--trust-digest: not 64 hex digits in lower case" "" \
      "give what sha256sum printed for SHA256SUMS on the machine that made the bundle"
    digest_of "$list"
    [ "$digest" = "$wanted" ] || fail 1 "SHA256SUMS: not the one that is trusted" \
      "expected sha256 $wanted, found $digest" \
      "don't use the bundle; get it and the digest again, each by its own road"
    trusted=1
  fi
  form=openssl first=
  [ ! -f "$signature" ] || IFS= read -r first <"$signature" || :
  case $first in "-----BEGIN SSH SIGNATURE-----"*) form=ssh-keygen ;; esac
  [ -n "$key_given" ] || find_key "$form"
  if [ -z "$key$key_given" ]; then
    [ -n "$trusted" ] || [ ! -e "$signature" ] ||
      echo "note: the signature was NOT verified: name the public key with --key FILE" >&2
    return 0
  fi
  look_at_key
  [ -e "$signature" ] || fail 1 "SHA256SUMS.sig: missing, and $key is the key that is trusted" \
    "the bundle is not signed, or its signature was left behind" \
    "copy the signature too, or have the bundle signed: bundle sign"
  case $form,$kind in
    openssl,pem | ssh-keygen,pub | ssh-keygen,allowed) ;;
    *,) fail 2 "$key: no public key" "" "give a PEM, .pub or allowed_signers file" ;;
    *) fail 1 "SHA256SUMS.sig: is for $form, or damaged, and the key in $key is for another tool" \
      "" "give a PEM file for openssl, a .pub or allowed_signers file for ssh-keygen" ;;
  esac
  need_tool "$form" || return 0
  case $form in openssl) check_openssl ;; *) check_ssh ;; esac
  [ -n "$quiet" ] || echo "$verified" >&2
}

# For a restore: of the list and its copy the one that is trusted and names this script.
choose_list() {
  list=$here/SHA256SUMS
  [ -n "$restoring" ] || return 0
  digest_of "$here/$self"
  for name in SHA256SUMS SHA256SUMS.copy; do
    list=$here/$name
    [ -f "$list" ] && [ ! -h "$list" ] || continue
    line=
    while IFS= read -r line && [ "$line" != "$digest  $self" ]; do line=; done <"$list"
    [ "$line" = "$digest  $self" ] || continue
    # In a process of its own: what is not good there ends that, and the other list is looked at.
    (trap cleanup EXIT && quiet=1 && check_trust) >/dev/null 2>&1 && return 0
  done
  list=$here/SHA256SUMS
  [ -f "$list" ] || list=$here/SHA256SUMS.copy
}

# Whether a name is the archive, or one of its volumes.
is_piece() {
  case $1 in
    "$ARCHIVE" | "${ARCHIVE%.000}".[0-9][0-9][0-9]) return 0 ;;
    *) return 1 ;;
  esac
}

# Whether a name is there for restoring only; installing does not read it.
is_beside() {
  case $1 in
    restore.sh | "$base".head | "$base".parity | "$base".parity.[0-9][0-9][0-9]) return 0 ;;
    *) return 1 ;;
  esac
}

# `sha256sum -c` ignores comments, links and unlisted files; this does not.
check_list() {
  names="/"
  while IFS= read -r line || [ -n "$line" ]; do
    sum=${line%%  *}
    name=${line#*  }
    case $line in
      *"$cr"*) damaged "SHA256SUMS: its lines end in CR LF" "" ;;
    esac
    case $name in
      '' | *[!A-Za-z0-9_.+@-]* | [.+@-]* | SHA256SUMS | SHA256SUMS.sig | SHA256SUMS.copy | model.sig)
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
    if [ "$name" = "$self" ]; then :; elif [ -n "$restoring" ] || is_beside "$name"; then continue; fi
    [ -f "$here/$name" ] || damaged "$name: missing on the medium" ""
    [ "$name" != "$ARCHIVE" ] || continue
    digest_of "$here/$name"
    [ "$digest" = "$sum" ] || damaged "$name: altered" "expected sha256 $sum, found $digest"
  done <"$list"
  for name in "$self" install.sh "$ARCHIVE"; do
    case $names in
      */"$name"/*) ;;
      *) damaged "SHA256SUMS: has no line for $name" "" ;;
    esac
  done
  [ -z "$restoring" ] || return 0
  for file in "$here"/* "$here"/.[!.]* "$here"/..?*; do
    name=${file##*/}
    [ -e "$file" ] || [ -h "$file" ] || continue
    case "$name" in SHA256SUMS | SHA256SUMS.sig) continue ;; esac
    # OpenSSF's signature, which is for other tools, and what only a restore reads.
    case "$name" in
      model.sig | SHA256SUMS.copy) [ ! -f "$file" ] || [ -h "$file" ] || continue ;;
    esac
    case $names in
      */"$name"/*) ;;
      *) damaged "$name: lies beside the bundle and is not in SHA256SUMS" "" ;;
    esac
  done
}

# For a restore: the archive, or the second copy of its start, whichever still holds the runtime.
choose_start() {
  start=$ARCHIVE
  [ -n "$restoring" ] || return 0
  for start in "$base.head" "$ARCHIVE"; do
    # A pipe would never end.
    [ -f "$here/$start" ] && [ ! -h "$here/$start" ] || continue
    digest=$(tar -xO -f "$here/$start" runtime.tar.gz 2>/dev/null | sha256sum) || continue
    [ "${digest%% *}" != "$RUNTIME_SHA256" ] || return 0
  done
  fail 1 "$ARCHIVE, $base.head: the program that restores is damaged in both" "" \
    "bundle restore, on a machine that has it; or copy the bundle from its source again"
}

# Unpacks the runtime into the first folder that has room and lets programs run.
start_runtime() {
  reasons=
  for folder in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm "${HOME:-/}"; do
    [ -d "$folder" ] && [ -w "$folder" ] || continue
    stage=$(mktemp -d "$folder/vllm-bundle.XXXXXX" 2>/dev/null) || continue
    # tar's own status does not matter: what counts is the digest of what came out.
    tar -xo -f "$here/$start" -C "$stage" runtime.tar.gz 2>/dev/null || true
    taken=$stage/runtime.tar.gz
    # A pipe would never end, and a link leads elsewhere.
    if [ -h "$taken" ] || { [ -e "$taken" ] && [ ! -f "$taken" ]; }; then
      damaged "$start: runtime.tar.gz in it is no file" ""
    fi
    size=$(wc -c 2>/dev/null <"$taken") || size=0
    if [ "$size" -ne "$RUNTIME_SIZE" ]; then
      # What tar gives without a disk tells a disk that is full from an archive that is cut off.
      size=$(tar -xO -f "$here/$start" runtime.tar.gz 2>/dev/null | wc -c)
      [ "$size" -eq "$RUNTIME_SIZE" ] ||
        damaged "$start: cut off, or runtime.tar.gz in it is altered" \
          "expected $RUNTIME_SIZE bytes of it, found $size"
      reasons="$reasons $folder (no room);"
    else
      digest_of "$taken"
      [ "$digest" = "$RUNTIME_SHA256" ] || damaged "$start: runtime.tar.gz in it is altered" \
        "expected sha256 $RUNTIME_SHA256, found $digest"
      mkdir "$stage/runtime"
      if gzip -dc <"$taken" | tar -xo -f - -C "$stage/runtime" 2>/dev/null; then
        if output=$("$stage/runtime/bin/python" -I -B -c pass 2>&1); then
          rm -f "$taken"
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
  # What only this script understands is taken out of the words; bundlectl gets the rest.
  key='' key_given='' wanted='' digest_given='' prefix='' quiet='' expected=
  for word; do
    shift
    case $expected,$word in
      key,*) key=$word expected='' && continue ;;
      digest,*) wanted=$word expected='' && continue ;;
      prefix,*) prefix=$word expected= ;;
      ,--key) expected=key key_given=1 && continue ;;
      ,--key=*) key=${word#*=} key_given=1 && continue ;;
      ,--trust-digest) expected=digest digest_given=1 && continue ;;
      ,--trust-digest=*) wanted=${word#*=} digest_given=1 && continue ;;
      ,--prefix) expected=prefix ;;
      ,--prefix=*) prefix=${word#*=} ;;
      ,--quiet | ,--json) quiet=1 ;;
    esac
    set -- "$@" "$word"
  done
  case $expected in
    key | digest) fail 2 "the last option has no value" "" "see: sh install.sh --help" ;;
  esac
  # Only as the first word: anywhere else it may be the value of an option.
  case $self,${1:-} in
    *,restore) restoring=1 ;;
    restore.sh,*) restoring=1 && set -- restore "$@" ;;
  esac
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  check_tools
  check_host
  choose_list
  check_trust
  check_list
  choose_start
  start_runtime
  if [ -n "$restoring" ]; then
    digest=
    [ -z "$trusted$verified" ] || digest_of "$list"
    set -- "$@" --trusted-list "$digest"
  fi
  # From here on bundlectl takes the signals, and removes the folder when it ends.
  trap - EXIT HUP
  trap '' INT TERM
  exec "$stage/runtime/bin/python" -I -B -X utf8 -m bundlectl \
    --stage "$stage" --media "$here" --manifest "$MANIFEST_SHA256" "$@"
}

main "$@"
