#!/bin/sh
# Describes this host for `bundle create --target REPORT` on a connected machine. Needs sh and
# coreutils or BusyBox; no network, no Python, no root. Leaves nothing behind.
#
#   sh preflight-report.sh >report.txt     a few lines to carry, read out, photograph or type in
#   sh preflight-report.sh --json          the same as one JSON object
#   sh preflight-report.sh --timeout 60    seconds to wait for each nvidia-smi (20)
#   sh preflight-report.sh --root DIR      look below DIR for everything that it reads and runs: for
#                                          tests, and for containers that see their host there
#
# Told are: system, C library, NVIDIA driver and GPUs, processor, memory, free disk space. Not told:
# names of host and users, serial numbers, addresses. The last line has three check digits for each
# line above it, so that a misread line is found.
#
# Lines up to the first check end in '#', so that they still work when a medium turned LF into CR LF.
case "$(head -n 1 "$0" 2>/dev/null)" in *"$(printf '\r')") #
  echo "error: preflight-report.sh: its lines end in CR LF" >&2 #
  echo "  mend: copy it again in binary mode" >&2 #
  exit 1 #
;; esac #

set -u
umask 077
LC_ALL=C
export LC_ALL
unset LANGUAGE LD_LIBRARY_PATH LD_PRELOAD CDPATH ENV BASH_ENV IFS GREP_OPTIONS POSIXLY_CORRECT

root=
json=
patience=20
scratch=
lines=  # the report, a line each
count=0 # of them
notes=
disks=0
limited=
nl='
'
# With the check line, what fits a screen and a photograph.
MOST_LINES=15
MOST_COLUMNS=72

usage() { # MESSAGE
  echo "error: $1" >&2
  echo "  mend: sh preflight-report.sh [--json] [--timeout SECONDS] [--root DIR]" >&2
  exit 2
}

cleanup() {
  [ -z "$scratch" ] || rm -rf -- "$scratch"
}

# Printable ASCII without quotes, backslashes and runs of blanks, so that it is safe in JSON and can
# be typed.
clean() {
  tr -c "A-Za-z0-9 ._+,:/()=@%#~'-" ' ' | tr -s ' ' | sed 's/^ //; s/ $//'
}

add() { # KEY VALUE
  line=$(printf '%s' "$1: $2" | clean | cut -c "1-$MOST_COLUMNS")
  lines="$lines${line% }$nl"
  count=$((count + 1))
}

note() { # TEXT
  notes="$notes$1$nl"
}

first_line() { # FILE
  head -n 1 "$1" 2>/dev/null
}

have() {
  command -v "$1" >/dev/null 2>&1
}

# --- system -------------------------------------------------------------------------------------

os_field() { # NAME
  for file in "$root/etc/os-release" "$root/usr/lib/os-release"; do
    [ -r "$file" ] || continue
    sed -n "s/^$1=//p" "$file" | tr -d "\"'" | head -n 1
    return
  done
}

describe_system() {
  add arch "$(uname -m)"
  # VERSION_ID may be missing (rolling releases), or both.
  os=$(printf '%s %s' "$(os_field ID)" "$(os_field VERSION_ID)" | clean)
  add os "${os:-unknown}"
  kernel=$(first_line "$root/proc/sys/kernel/osrelease") || kernel=
  add kernel "${kernel:-$(uname -r)}"
  case ${kernel:-$(uname -r)} in
    *[Mm]icrosoft*) note "WSL: the NVIDIA driver is Windows' own" ;;
  esac
  for mark in "$root/.dockerenv" "$root/run/.containerenv"; do
    [ ! -e "$mark" ] || note "looked at from inside a container"
  done
}

# --- C library ----------------------------------------------------------------------------------

# Sets $libc. The running system's tools first; then the library's own text, which is read and not
# run, so that it works below --root and where nothing is executable.
find_libc() {
  libc=
  if [ -z "$root" ]; then
    found=$(getconf GNU_LIBC_VERSION 2>/dev/null) || found=
    libc=$(printf '%s\n' "$found" | sed -n 's/^\(glibc [0-9]*\.[0-9]*\).*/\1/p')
    [ -z "$libc" ] || return
    found=$(ldd --version 2>&1) || :
    case $found in
      *musl*)
        libc="musl $(printf '%s\n' "$found" | sed -n 's/^Version \([0-9.]*\).*/\1/p')"
        return
        ;;
      *GLIBC* | *"GNU libc"*)
        libc=$(printf '%s\n' "$found" | sed -n '1s/.*[^0-9.]\([0-9]*\.[0-9]*\)$/glibc \1/p')
        [ -z "$libc" ] || return
        ;;
    esac
  fi
  for file in "$root"/lib64/libc.so.6 "$root"/lib/*-linux-gnu*/libc.so.6 "$root"/lib/libc.so.6 \
    "$root"/usr/lib64/libc.so.6 "$root"/usr/lib/*-linux-gnu*/libc.so.6 "$root"/usr/lib/libc.so.6; do
    [ -r "$file" ] || continue
    libc=$(tr -c ' -~' '\n' <"$file" |
      sed -n 's/.*GNU C Library.* release version \([0-9]*\.[0-9]*\).*/glibc \1/p' | head -n 1)
    [ -z "$libc" ] || return
  done
  for file in "$root"/lib/ld-musl-*.so.1; do
    [ ! -e "$file" ] || libc=musl
  done
}

# --- NVIDIA -------------------------------------------------------------------------------------

find_smi() { # sets $smi
  [ -n "$root" ] || { smi=$(command -v nvidia-smi 2>/dev/null) && return; }
  # WSL; containers; drivers that an operator keeps in a folder of its own (GPU Operator, Talos).
  for smi in "$root/usr/bin/nvidia-smi" "$root/usr/lib/wsl/lib/nvidia-smi" \
    "$root/usr/local/nvidia/bin/nvidia-smi" "$root/opt/bin/nvidia-smi" \
    "$root/run/nvidia/driver/usr/bin/nvidia-smi" "$root/usr/local/bin/nvidia-smi"; do
    [ ! -x "$smi" ] || return 0
  done
  smi=
  return 1
}

# Runs nvidia-smi; its output in $answer, status in $status ("hangs" where it did not end). It waits
# by itself: some hosts have no `timeout`, and a stuck driver's nvidia-smi can't even be killed.
ask_smi() { # ARGUMENT…
  rm -f "$scratch"/*
  (
    "$smi" "$@" </dev/null >"$scratch/out" 2>&1 &
    echo $! >"$scratch/pid"
    wait $!
    echo $? >"$scratch/rc.new" && mv "$scratch/rc.new" "$scratch/rc"
  ) >/dev/null 2>&1 &
  waited=0
  status=
  while :; do
    [ ! -f "$scratch/rc" ] || { status=$(cat "$scratch/rc") && break; }
    [ "$waited" -lt "$((patience * 5))" ] || break
    # Fractions are for coreutils and BusyBox; elsewhere whole seconds.
    if sleep 0.2 2>/dev/null; then waited=$((waited + 1)); else
      sleep 1
      waited=$((waited + 5))
    fi
  done
  answer=$(tr -cd '\n -~' <"$scratch/out" 2>/dev/null)
  if [ -z "$status" ]; then
    status=hangs
    kill -9 "$(cat "$scratch/pid")" 2>/dev/null
  fi
}

# Reads lines `NAME, CAPABILITY, MIB` and gives `COUNT x NAME, CAPABILITY, MEMORY`, once each.
count_kinds() {
  sed 's/ *, */,/g; s/^ *//; s/ *$//' | while IFS=, read -r name capability memory rest; do
    [ -n "$name" ] || continue
    case $capability in [0-9].[0-9] | [0-9][0-9].[0-9]) ;; *) capability=unknown ;; esac
    case $memory in '' | *[!0-9]*) memory=unknown ;; *) memory="$memory MiB" ;; esac
    name=$(printf '%s' "$name" | clean | cut -c 1-44)
    printf '%s, %s, %s\n' "$name" "$capability" "$memory"
  done | sort | uniq -c | sed 's/^ *\([0-9]*\) /\1 x /'
}

# MIG: programs see the slices, not the GPU. `nvidia-smi -L` names them below their GPU:
#   GPU 0: NVIDIA A100-SXM4-40GB (UUID: …)
#     MIG 1g.5gb      Device  0: (UUID: …)
# Gives lines as count_kinds reads them, with a GPU's line of $table where it has no slices.
slices() { # LIST
  row=0
  whole=
  printf '%s\nGPU\n' "$1" | sed 's/(UUID.*//' | while read -r kind rest; do
    case $kind in
      GPU)
        [ -z "$whole" ] || printf '%s\n' "$entry"
        row=$((row + 1))
        whole=yes
        entry=$(printf '%s\n' "$table" | sed -n "${row}p")
        ;;
      MIG)
        whole=
        profile=${rest%% *}
        size=${profile#*.}
        size=${size%%gb*}
        case $size in '' | *[!0-9]*) ;; *) size=$((size * 1024)) ;; esac
        capability=${entry#*,}
        echo "${entry%%,*} MIG $profile,${capability%%,*},$size"
        ;;
    esac
  done
}

complain() { # nvidia-smi's text
  reason=$(printf '%s\n' "$1" | grep '[A-Za-z0-9]' | head -n 1 | clean)
  [ "$status" != hangs ] || reason="no answer in $patience s"
  note "nvidia-smi: ${reason:-ended with status $status}"
}

# Sets $kinds, and $driver where it is not known, from nvidia-smi of any age.
read_smi() {
  ask_smi --query-gpu=name,compute_cap,memory.total,driver_version --format=csv,noheader,nounits
  if [ "$status" = 2 ]; then
    # Before driver 510 compute_cap is no valid field: the product's name has to do.
    ask_smi --query-gpu=name,memory.total,driver_version --format=csv,noheader,nounits
    answer=$(printf '%s\n' "$answer" | sed '/,/s/,/,unknown,/')
  fi
  # Beside the table there can be warnings, and GPUs that do not answer.
  row='^[^,]*,[^,]*,[^,]*, *[0-9][0-9]*\.[0-9.]* *$'
  table=$(printf '%s\n' "$answer" | grep "$row")
  rest=$(printf '%s\n' "$answer" | grep -v "$row" | grep '[A-Za-z0-9]')
  [ -z "$rest" ] && [ -n "$table" ] || complain "$rest"
  [ -n "$table" ] || return 0
  [ -n "$driver" ] || driver=$(printf '%s\n' "$table" | sed -n '1s/.*, *\([0-9][0-9.]*\) *$/\1/p')
  kinds=$(printf '%s\n' "$table" | count_kinds)
  ask_smi -L
  case $answer in *"$nl  MIG "*) kinds=$(slices "$answer" | count_kinds) ;; esac
}

describe_gpus() {
  driver=
  kinds=
  # NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023
  driver=$(sed -n 's/^NVRM.* \([0-9][0-9]*\.[0-9][0-9.]*\) .*/\1/p' \
    "$root/proc/driver/nvidia/version" 2>/dev/null | head -n 1)
  if ! find_smi; then
    [ -z "$driver" ] || note "nvidia-smi: not found"
  elif [ -z "$scratch" ]; then
    note "nvidia-smi: not asked, no folder to write to (set TMPDIR)"
  else
    read_smi
  fi
  if [ -z "$kinds" ]; then
    kinds=$(cat "$root"/proc/driver/nvidia/gpus/*/information 2>/dev/null |
      sed -n 's/^Model:[[:blank:]]*//p' | count_kinds)
  fi
  if [ -z "$kinds" ]; then
    kinds=none
    device=$(nvidia_device)
    if [ -n "$device" ]; then
      kinds=unknown
      [ -n "$driver" ] || note "PCI: $device, and no driver of NVIDIA's is loaded"
    elif [ -n "$driver$smi" ]; then
      kinds=unknown
    fi
  fi
  add driver "${driver:-none}"
  listed=0
  hidden=0
  while IFS= read -r kind; do
    if [ "$listed" -lt 4 ]; then add gpu "$kind"; else hidden=$((hidden + 1)); fi
    listed=$((listed + 1))
  done <<KINDS
$kinds
KINDS
  [ "$hidden" = 0 ] || note "$hidden more kinds of GPU are not listed"
}

# The PCI ids of the first graphics device (class 03) of NVIDIA's (vendor 10de).
nvidia_device() {
  for folder in "$root"/sys/bus/pci/devices/*; do
    [ "$(first_line "$folder/vendor")" = 0x10de ] || continue
    case $(first_line "$folder/class") in
      0x03*) echo "10de:$(first_line "$folder/device" | cut -c 3-)" && return ;;
    esac
  done
}

# --- processor, memory, disks -------------------------------------------------------------------

describe_processor() {
  info="$root/proc/cpuinfo"
  processors=$(grep -c '^processor' "$info" 2>/dev/null) || processors=0
  present=" $(sed -n 's/^flags[^:]*://p' "$info" 2>/dev/null | head -n 1) "
  flags=
  for flag in avx2 avx512f avx512_bf16 amx_bf16; do
    case $present in *" $flag "*) flags="$flags $flag" ;; esac
  done
  add cpu "$processors${flags:+,$flags}"
}

# The least of what the machine has and what the control groups of this process allow.
describe_memory() {
  memory=$(sed -n 's/^MemTotal: *\([0-9]*\) kB.*/\1/p' "$root/proc/meminfo" 2>/dev/null)
  group=$(sed -n 's/^[0-9]*:\(memory\)*:\//\//p' "$root/proc/self/cgroup" 2>/dev/null | head -n 1)
  base=$root/sys/fs/cgroup
  group=${group:-/}
  while :; do
    for limit in "$base$group/memory.max" "$base/memory$group/memory.limit_in_bytes"; do
      bytes=$(first_line "$limit") || continue
      # 16 digits and more stand for "no limit" in version 1.
      case $bytes in '' | *[!0-9]* | ????????????????*) continue ;; esac
      if [ -z "$memory" ] || [ "$((bytes / 1024))" -lt "$memory" ]; then
        memory=$((bytes / 1024))
        limited=yes
      fi
    done
    [ "$group" != / ] && [ -n "$group" ] || break
    group=${group%/*}
  done
  [ -z "$limited" ] || note "memory: a control group's limit"
  if [ -n "$memory" ]; then add memory "$((memory / 1024)) MiB"; else add memory unknown; fi
}

# Free space where a bundle could go, a line for each file system, as many as still fit.
describe_disks() { # LINES
  seen=" "
  for folder in /opt /srv /data /home /var / /mnt; do
    [ -d "$root$folder" ] && [ "$1" -gt "$disks" ] || continue
    # Portable format: name, blocks, used, available, capacity ("-" on some), mount point.
    entry=$(df -P -k "$root$folder" 2>/dev/null |
      sed -n '2s/.* \([0-9][0-9]*\)  *[0-9-][0-9]*%\{0,1\}  *\(\/.*\)/\1 \2/p')
    free=${entry%% *}
    mount=${entry#* }
    case $free in '' | *[!0-9]*) continue ;; esac
    case $seen in *" $mount "*) continue ;; esac
    seen="$seen$mount "
    disks=$((disks + 1))
    add disk "$folder, $((free / 1024)) MiB"
  done
}

# --- output -------------------------------------------------------------------------------------

# Three digits for a line: the first of the sha256 of it in small letters and without blanks, with
# 0 to 5 for a to f.
# shellcheck disable=SC2018,SC2019  # ASCII is meant: the lines have nothing else
digits() { # LINE
  printf '%s' "$1" | tr -d ' ' | tr A-Z a-z | sha256sum | cut -c 1-3 | tr a-f 0-5
}

seal() {
  have sha256sum || return 0
  printf 'check:'
  while IFS= read -r line; do printf ' %s' "$(digits "$line")"; done
  echo
}

# Lines `key: value` as JSON; what may come several times becomes a list.
as_json() {
  separator='{'
  close=
  last=
  while IFS= read -r line; do
    key=${line%%:*}
    value=${line#*: }
    if [ "$key" = "$last" ]; then
      printf ',\n    "%s"' "$value"
      continue
    fi
    printf '%s%s\n' "$close" "$separator"
    separator=,
    case $key in
      gpu | disk | note) close=']' && printf '  "%s": ["%s"' "$key" "$value" ;;
      *) close= && printf '  "%s": "%s"' "$key" "$value" ;;
    esac
    last=$key
  done
  printf '%s\n}\n' "$close"
}

main() {
  while [ "$#" -gt 0 ]; do
    case $1 in
      --json) json=yes ;;
      --root | --timeout)
        [ "$#" -gt 1 ] || usage "$1 needs a value"
        if [ "$1" = --root ]; then root=$2; else patience=$2; fi
        shift
        ;;
      -h | --help)
        sed -n '2,/^#$/p; /^#   sh/p' "$0" | sed 's/^# \{0,1\}//' | uniq
        exit 0
        ;;
      *) usage "unknown argument: $1" ;;
    esac
    shift
  done
  case $patience in '' | *[!0-9]* | ????*) usage "--timeout $patience: not seconds" ;; esac
  [ -z "$root" ] || [ -d "$root" ] || usage "--root $root: no such folder"
  root=${root%/}
  missing=
  for tool in cat cut df grep head mkdir mv rm sed sleep sort tr uname uniq; do
    have "$tool" || missing="$missing $tool"
  done
  [ -z "$missing" ] || {
    echo "error: this host lacks:$missing" >&2
    echo "  mend: install GNU coreutils and sed, or BusyBox" >&2
    exit 5
  }
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  for folder in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm /run; do
    # mkdir fails where the name exists, so nobody can have prepared it.
    scratch=$folder/vllm-bundle-report.$$
    if mkdir "$scratch" 2>/dev/null; then break; else scratch=; fi
  done

  add vllm-bundle-report 1
  describe_system
  find_libc
  add libc "${libc:-unknown}"
  describe_gpus
  describe_processor
  describe_memory
  told=$(printf '%s' "$notes" | head -n 3 | grep -c .)
  describe_disks "$((MOST_LINES - 1 - count - told))"
  while IFS= read -r text; do
    [ -z "$text" ] || [ "$count" -ge "$((MOST_LINES - 1))" ] || add note "$text"
  done <<NOTES
$notes
NOTES
  lines="$lines$(printf '%s' "$lines" | seal)"
  if [ -n "$json" ]; then
    printf '%s\n' "$lines" | as_json
  else
    printf '%s\n' "$lines"
  fi
}

main "$@"
