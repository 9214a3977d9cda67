# shellcheck shell=sh
# Sourced by ./demo and ./test: find a Python and make a virtual environment with this project.

find_python() {
  for candidate in "${PYTHON:-}" python3.12 python3.11 python3.13 python3.14 python3; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  echo "error: no Python 3.11 or newer was found" >&2
  echo "  mend: install one (apt-get install python3), or name it: PYTHON=/path/to/python3 $0" >&2
  exit 2
}

make_venv() { # FOLDER REQUIREMENT…
  venv=$1
  shift
  if [ ! -x "$venv/bin/pip" ]; then
    found=$(find_python)
    rm -rf "$venv"
    "$found" -m venv "$venv" >/dev/null 2>&1 || {
      # Debian and Ubuntu package a part of Python's own venv module apart.
      rm -rf "$venv"
      package=python$("$found" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv
      if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "installing Debian's $package, which $found needs to make virtual environments"
        apt-get update -qq && apt-get install -qq -y --no-install-recommends "$package" >/dev/null
      else
        echo "error: $found can't make virtual environments" >&2
        echo "  mend: apt-get install $package, then run $0 again" >&2
        exit 2
      fi
      "$found" -m venv "$venv"
    }
  fi
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}
