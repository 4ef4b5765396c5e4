#!/bin/bash
# Carries the Dockerfile out without Docker: each instruction on a copy of this machine (an overlay
# that is gone afterwards) in place of the image that FROM names, which must be of the same release of
# Debian and of Go. Then runs what CMD says as docs/operating.md shows it: as an ordinary user with the
# project and the state mounted, as the first process, in namespaces of its own. Root, and the network
# for what RUN installs. What Docker's filter of system calls takes away is not taken away here.
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" != inside ]; then
  exec unshare -m --propagation private "$0" inside
fi
fail() { echo "FAILED: $*" >&2; cat "$base/t/log" >&2 2>/dev/null; exit 1; }
base=$(mktemp -d)
trap 'umount -l "$base/t"; rmdir "$base/t" "$base"' EXIT
mkdir "$base/t" && mount -t tmpfs -o size=4g none "$base/t"
declare -A at                       # where each stage's copy is
declare -a env                      # of the stage
r= work=/ cmd=                      # its root, WORKDIR and CMD
copy() { # NAME: of this machine
  r=$base/t/$1/root
  mkdir -p "$base/t/$1/up" "$base/t/$1/work" "$r"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$base/t/$1/up,workdir=$base/t/$1/work" "$r"
  mount -t proc proc "$r/proc"
  for d in null zero urandom random full tty; do [ -e "$r/dev/$d" ] || touch "$r/dev/$d"; mount --bind "/dev/$d" "$r/dev/$d"; done
  for d in run tmp; do mount -t tmpfs none "$r/$d"; done
  rm -rf "$r/usr/bin/holdpoint" "$r/src" "$r/state"
}
in_stage() { chroot "$r" env "${env[@]}" sh -c "mkdir -p '$work' && cd '$work' && $1"; }

while read -r word rest; do
  case $word in
  '' | '#'*) ;;
  FROM)
    set -- $rest
    case $1 in
    golang:*) go version | grep -q " go${1#golang:}"'\.' || [ "golang:$(go env GOVERSION | sed 's/^go\([0-9]*\.[0-9]*\).*/\1/')-bookworm" = "$1" ] || fail "$1 is another Go than $(go env GOVERSION)" ;;
    debian:bookworm*) ;;
    *) fail "nothing here stands for $1" ;;
    esac
    grep -q '^VERSION_CODENAME=bookworm' /etc/os-release || fail "this machine is not bookworm"
    copy "${3:-last}"
    at[${3:-last}]=$r work=/ env=(PATH="$PATH" GOFLAGS="${GOFLAGS:-}")
    ;;
  WORKDIR) work=$rest && mkdir -p "$r$work" ;;
  COPY)
    set -- $rest
    case $1 in
    --from=*) cp -a "${at[${1#--from=}]}$2" "$r$3" ;;
    *) git ls-files -z | xargs -0 cp --parents -t "$r$work" ;; # .dockerignore leaves out no file of the source
    esac
    ;;
  ARG | ENV) env+=("$rest") ;;
  RUN) in_stage "$rest" >"$base/t/log" 2>&1 || fail "RUN $rest" ;;
  VOLUME) mkdir "$base/t/volume" && cp -a "$r$rest/." "$base/t/volume" && mount --bind "$base/t/volume" "$r$rest" ;; # as a named one begins
  CMD) cmd=$(printf %s "$rest" | tr -d '[],"') ;;
  *) fail "the Dockerfile has $word, which is not carried out here" ;;
  esac
done <Dockerfile
echo "held: every instruction"

mkdir -p "$base/t/project" "$r/srv/project"
echo one >"$base/t/project/a.txt"
chown -R 4321:4321 "$base/t/project"
mount --bind "$base/t/project" "$r/srv/project"
user=(setpriv --reuid 4321 --regid 4321 --clear-groups --bounding-set=-all --no-new-privs)
enter() { nsenter -t "$(cat "$base/t/pid")" -p -n chroot "$r" "${user[@]}" env -i "${env[@]}" HOLDPOINT_REVIEW_PASSPHRASE="$(sed -n 's/.*reviewer passphrase: //p' "$base/t/first")" "$@"; }
until_is() { for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }
run() {
  unshare -p -n -f --kill-child sh -c 'ip link set lo up 2>/dev/null || ifconfig lo up; exec "$@"' sh \
    chroot "$r" "${user[@]}" env -i "${env[@]}" $cmd >"$base/t/log" 2>&1 &
  starter=$!
  until_is pgrep -P "$starter" || fail "it did not start"
  pgrep -P "$starter" >"$base/t/pid"
  until_is enter curl -sf -H 'Host: localhost:7117' http://127.0.0.1:7117/healthz || fail "it does not serve on its port"
}
: >"$base/t/first"
run
cp "$base/t/log" "$base/t/first"
echo "held: it serves on the port, as the first process and an ordinary user"
enter holdpoint call edit_file path=a.txt old_string=one new_string=two >/dev/null
[ "$(cat "$base/t/project/a.txt")" = two ] || fail "an edit did not reach the project"
enter holdpoint undo @ >/dev/null
[ "$(cat "$base/t/project/a.txt")" = one ] || fail "an undo did not reach the project"
echo "held: an edit and its undo"
enter holdpoint call delete_file path=a.txt >/dev/null && fail "a delete did not wait"
kill -TERM "$(cat "$base/t/pid")"
wait "$starter" || fail "the end of the container was not clean: $?"
run
card=$(enter holdpoint review list --json | grep -o 'ap_[a-z2-7]*' | head -n 1)
enter holdpoint review approve "$card" >/dev/null
[ ! -e "$base/t/project/a.txt" ] || fail "an approved delete did not happen"
echo "held: a card waits over the end of the container and is answered in the next"
kill -TERM "$(cat "$base/t/pid")"
wait "$starter" || fail "the end of the container was not clean: $?"
echo "all held"
