# shellcheck shell=bash
#
# Independent SQS servers for the tests, without Docker: every one is installed from a package registry at a pinned
# version, listens on loopback only and keeps its queues in memory. To be sourced:
#
#   source .ci/servers.sh
#   trap server_stop_all EXIT
#   server_install fauxqs
#   server_start fauxqs             # sets SERVER_PID, SERVER_ENDPOINT and SERVER_LOG: call it in no subshell
#   SQS_ENDPOINT=$SERVER_ENDPOINT go test ./...
#   server_stop "$SERVER_PID"
#
# Clients use SERVER_ENDPOINT as the base endpoint, SERVER_REGION as the region and any static credentials; queue ARNs
# then have SERVER_REGION and SERVER_ACCOUNT.
#
# CI_CACHE (default: .cache beside this file) takes what is installed and the logs. Every function returns non-zero on
# failure, with or without set -e, and can be used in a condition.

# shellcheck disable=SC2034 # for those who source this
SERVERS=(fauxqs elasticmq moto local-aws-sqs) # most faithful and fastest first
SERVER_REGION=us-east-1
SERVER_ACCOUNT=000000000000
SERVER_PID=""
SERVER_ENDPOINT=""
SERVER_LOG=""

_server_pids=()
_server_ci=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" >/dev/null && pwd)
_server_cache=${CI_CACHE:-$_server_ci/.cache}
if [[ $_server_cache != /* ]]; then
  _server_cache=$PWD/$_server_cache
fi

# server_install NAME installs a server into the cache. It does nothing if the pinned version is there already.
server_install() {
  local name=${1:?server_install: NAME missing} stamp log
  _server_known "$name" || return
  stamp=$(_server_stamp "$name") || return
  if _server_installed "$name" "$stamp"; then
    return 0
  fi
  mkdir -p -- "$_server_cache/log" || return
  log=$_server_cache/log/$name-install.log
  if ! (
    exec 9>"$_server_cache/$name.lock" && flock 9 || exit
    if _server_installed "$name" "$stamp"; then
      exit 0 # another shell has done it meanwhile
    fi
    _server_install "$name" "$stamp" >"$log" 2>&1
  ); then
    printf 'server_install: %s failed:\n' "$name" >&2
    tail -n 40 -- "$log" >&2
    return 1
  fi
}

# server_start NAME [PORT] starts an installed server in the background and waits until it answers. Without a PORT it
# picks a free one, outside the range of outgoing connections.
server_start() {
  local name=${1:?server_start: NAME missing} port=${2:-} dir try
  _server_known "$name" || return
  dir=$_server_cache/$name
  if [[ ! -f $dir/.installed ]]; then
    printf 'server_start: %s is not installed\n' "$name" >&2
    return 1
  fi
  mkdir -p -- "$_server_cache/log" || return
  for try in 1 2 3; do # another process may take the port first
    port=${2:-$(_server_free_port)} || return
    SERVER_PID=""
    SERVER_ENDPOINT=http://127.0.0.1:$port
    SERVER_LOG=$_server_cache/log/$name-$port.log
    "_server_run_$name" "$dir" "$port" </dev/null >"$SERVER_LOG" 2>&1 &
    SERVER_PID=$!
    disown "$SERVER_PID" # no word from the shell when it ends
    _server_pids+=("$SERVER_PID")
    if _server_wait "$SERVER_PID" "$SERVER_ENDPOINT"; then
      return 0
    fi
    printf 'server_start: %s did not answer on port %s (try %s):\n' "$name" "$port" "$try" >&2
    tail -n 40 -- "$SERVER_LOG" >&2
    server_stop "$SERVER_PID"
    if [[ -n ${2:-} ]]; then
      break
    fi
  done
  SERVER_PID=""
  SERVER_ENDPOINT=""
  return 1
}

# server_stop PID ends a server, kindly at first, and returns once it is gone.
server_stop() {
  local pid=${1:?server_stop: PID missing} kept=() other signal
  if [[ ! $pid =~ ^[1-9][0-9]*$ || $pid == 1 ]]; then
    printf 'server_stop: no process id: %s\n' "$pid" >&2
    return 1
  fi
  for other in "${_server_pids[@]}"; do
    if [[ $other != "$pid" ]]; then
      kept+=("$other")
    fi
  done
  _server_pids=("${kept[@]}")
  for signal in TERM KILL; do
    kill -s "$signal" "$pid" 2>/dev/null || true
    for _ in {1..50}; do
      if ! _server_alive "$pid"; then
        return 0
      fi
      sleep 0.1
    done
  done
  printf 'server_stop: process %s does not end\n' "$pid" >&2
  return 1
}

# server_stop_all ends every server that this shell started and has not stopped.
server_stop_all() {
  local pid failed=0
  for pid in "${_server_pids[@]}"; do
    server_stop "$pid" || failed=1
  done
  return "$failed"
}

_server_installed() {
  [[ $(cat -- "$_server_cache/$1/.installed" 2>/dev/null) == "$2" ]]
}

_server_install() {
  local dir=$_server_cache/$1
  rm -rf -- "$dir" && mkdir -- "$dir" && "_server_install_$1" "$dir" && printf '%s\n' "$2" >"$dir/.installed"
}

# Installing: each gets an empty directory, and prints to a log that is shown if it fails.

# fauxqs needs a newer Node.js than Debian's, so its package.json brings one. The binary is in a package of its own for
# each architecture, which needs no install script.
_server_install_fauxqs() {
  _server_npm fauxqs "$1" && (
    cd -- "$1" && "$(_server_node22 "$1")" --input-type=module -e 'import "fauxqs"'
  )
}

_server_install_local-aws-sqs() {
  _server_npm local-aws-sqs "$1" && (
    cd -- "$1" && node -e 'require("local-aws-sqs").createSqsServer.name'
  )
}

_server_install_moto() {
  python3 -m venv "$1/venv" &&
    _server_retry "$1/venv/bin/pip" install --quiet --no-input --disable-pip-version-check \
      --only-binary :all: --require-hashes --requirement "$_server_ci/moto/requirements.txt" &&
    "$1/venv/bin/python" -c 'import moto.server'
}

_server_install_elasticmq() {
  _server_retry mvn --batch-mode --quiet -Dstyle.color=never -Dmaven.repo.local="$1/repository" \
    --file "$_server_ci/elasticmq/pom.xml" \
    dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$1/lib" || return
  (cd -- "$1/lib" && sha256sum --check --strict --quiet -- "$_server_ci/elasticmq/jars.sha256") || return
  if [[ $(find "$1/lib" -name '*.jar' | wc -l) -ne $(wc -l <"$_server_ci/elasticmq/jars.sha256") ]]; then
    echo "jars that jars.sha256 does not list" >&2
    return 1
  fi
  rm -rf -- "$1/repository"
}

_server_npm() {
  cp -- "$_server_ci/$1"/{.npmrc,package.json,package-lock.json,serve.*} "$2" && (
    cd -- "$2" && _server_retry npm ci --ignore-scripts
  )
}

_server_node22() {
  local node
  for node in "$1"/node_modules/node-linux-*/bin/node; do
    if [[ -x $node ]]; then
      printf '%s\n' "$node"
      return 0
    fi
  done
  printf 'no Node.js for %s\n' "$(uname -m)" >&2
  return 1
}

# A registry may be slow to answer once.
_server_retry() {
  for _ in 1 2; do
    if timeout 300 "$@"; then
      return 0
    fi
  done
  timeout 300 "$@"
}

# Running: exec keeps the id of the background process.

_server_run_fauxqs() {
  local node
  node=$(_server_node22 "$1") && exec "$node" "$1/serve.mjs" "$2"
}

_server_run_local-aws-sqs() {
  exec node "$1/serve.cjs" "$2" "$SERVER_REGION" "$SERVER_ACCOUNT"
}

_server_run_moto() {
  MOTO_ACCOUNT_ID=$SERVER_ACCOUNT exec "$1/venv/bin/moto_server" -H 127.0.0.1 -p "$2"
}

_server_run_elasticmq() {
  exec java -Xmx512m -XX:+UseSerialGC -Dconfig.file="$_server_ci/elasticmq/elasticmq.conf" \
    -Dnode-address.port="$2" -Drest-sqs.bind-port="$2" -cp "$1/lib/*" org.elasticmq.server.Main
}

# _server_wait waits, a minute at most, until a server answers ListQueues or its process ends.
_server_wait() {
  local scope=20260101/$SERVER_REGION/sqs/aws4_request
  for _ in {1..300}; do
    if ! _server_alive "$1"; then
      return 1
    fi
    if curl --silent --fail --noproxy '*' --max-time 5 --output /dev/null \
      --header 'Content-Type: application/x-amz-json-1.0' \
      --header 'X-Amz-Target: AmazonSQS.ListQueues' \
      --header "Authorization: AWS4-HMAC-SHA256 Credential=test/$scope, SignedHeaders=host, Signature=0" \
      --data '{}' "$2/"; then
      _server_listens "$1" "${2##*:}" # or else it was another server that answered
      return
    fi
    sleep 0.2
  done
  return 1
}

_server_alive() {
  local state
  kill -0 "$1" 2>/dev/null || return 1
  state=$(sed -e 's/.*) //' -e 's/ .*//' "/proc/$1/stat" 2>/dev/null) || return 1
  [[ $state != Z ]]
}

# _server_listens tells whether it is process PID that listens on PORT.
_server_listens() {
  local hex inode
  printf -v hex '%04X' "$2"
  while read -r inode; do
    if [[ -n $(find "/proc/$1/fd" -lname "socket:\[$inode\]" 2>/dev/null) ]]; then
      return 0
    fi
  done < <(awk -v "port=:$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { print $10 }' /proc/net/tcp*)
  return 1
}

_server_free_port() {
  local port
  for _ in {1..100}; do
    port=$((20000 + RANDOM % 10000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      printf '%s\n' "$port"
      return 0
    fi
  done
  echo 'no free port' >&2
  return 1
}

_server_known() {
  local name
  for name in "${SERVERS[@]}"; do
    if [[ $name == "$1" ]]; then
      return 0
    fi
  done
  printf 'unknown server: %s (there are: %s)\n' "$1" "${SERVERS[*]}" >&2
  return 1
}

# _server_stamp says what an installation was made of: the pinned manifests, the machine and where it lies.
_server_stamp() {
  (
    shopt -s dotglob
    cat -- "$_server_ci/$1"/* && uname -m && printf '%s\n' "$_server_cache" &&
      if [[ $1 == moto ]]; then python3 --version; fi
  ) | sha256sum
}
