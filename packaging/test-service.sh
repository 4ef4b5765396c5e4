#!/bin/bash
# Boots Debian's systemd as the first process of namespaces of its own, on an overlay of this
# machine, with the system's units for a user ada and those of a user's own manager for bob, and
# sees that a daemon hardened so does all that it does elsewhere. Root; nothing of this machine is
# changed. The lines "held" are what was seen; the first that does not hold ends it.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
inside)
  t=$2/t r=$2/t/r
  mkdir "$t" && mount -t tmpfs none "$t" && mkdir "$t/u" "$t/w" "$r"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$t/u,workdir=$t/w" "$r"
  mount -t proc proc "$r/proc"
  mount -t sysfs sysfs "$r/sys"
  mount -t cgroup2 none "$r/sys/fs/cgroup"
  mount -t tmpfs none "$r/dev"
  for d in null zero full random urandom tty; do
    touch "$r/dev/$d"
    mount --bind "/dev/$d" "$r/dev/$d"
  done
  touch "$r/dev/console" && mount --bind "$(tty)" "$r/dev/console"
  mkdir "$r/dev/pts" "$r/dev/shm"
  mount -t devpts devpts -o newinstance,ptmxmode=666 "$r/dev/pts"
  ln -s pts/ptmx "$r/dev/ptmx"
  ln -s /proc/self/fd "$r/dev/fd"
  for d in dev/shm run tmp; do mount -t tmpfs none "$r/$d"; done
  mount --bind "$2/out" "$r/mnt"
  rm -rf "$r"/etc/systemd/system && mkdir -p "$r/etc/systemd/system/try.target.wants" "$r/etc/systemd/user"
  cp packaging/systemd/system/* "$r/etc/systemd/system/"
  cp packaging/systemd/user/* "$r/etc/systemd/user/"
  cp bin/holdpoint "$r/usr/bin/holdpoint"
  cp packaging/test-service.sh "$r/driver"
  for who in ada:4321 bob:4322; do
    name=${who%:*} id=${who#*:}
    echo "$name:x:$id:$id::/srv/$name:/bin/bash" >>"$r/etc/passwd"
    echo "$name:x:$id:" >>"$r/etc/group"
    mkdir -p "$r/srv/$name/project" "$r/srv/$name/.config/holdpoint"
    echo one >"$r/srv/$name/project/a.txt"
    printf '[serve]\nroots = ["project=/srv/%s/project"]\n' "$name" >"$r/srv/$name/.config/holdpoint/holdpoint.toml"
    chown -R "$id:$id" "$r/srv/$name"
    chmod 600 "$r/srv/$name/.config/holdpoint/holdpoint.toml"
  done
  printf '[Unit]\nDescription=try\n' >"$r/etc/systemd/system/try.target"
  printf '[Service]\nType=oneshot\nStandardOutput=file:/mnt/said\nStandardError=file:/mnt/said\nExecStart=/bin/bash /driver drive\nExecStopPost=/bin/systemctl exit\nTimeoutStartSec=600\n' \
    >"$r/etc/systemd/system/try.service"
  ln -s ../try.service "$r/etc/systemd/system/try.target.wants/try.service"
  mkdir "$r/old"
  cd "$r"
  # A root that was changed by chroot may make no user namespaces; this one is a root.
  pivot_root . old
  umount -l /old
  exec env -i container=try PATH=/usr/bin:/bin:/usr/sbin:/sbin /lib/systemd/systemd --system --unit=try.target --show-status=no
  ;;
drive) ;;
*)
  work=$(mktemp -d)
  mkdir "$work/out"
  group=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)/holdpoint-try
  mkdir -p "$group"
  trap 'rmdir "$group" 2>/dev/null || true; rm -rf "$work"' EXIT
  (
    echo $BASHPID >"$group/cgroup.procs"
    script -qec "unshare -m -p -u -i -C -f --propagation private bash packaging/test-service.sh inside $work" /dev/null >/dev/null </dev/null
  )
  cat "$work/out/said"
  tail -n 1 "$work/out/said" | grep -qx 'all held'
  exit
  ;;
esac

# From here on this runs in the booted system.
as() { # NAME ID VARIABLE=VALUE COMMAND
  setpriv --reuid "$2" --regid "$2" --clear-groups env -i PATH="$PATH" HOME="/srv/$1" HOLDPOINT_REVIEW_PASSPHRASE='only for tests 1' "$3" bash -c "cd /srv/$1/project; ${*:4}"
}
ada() { as ada 4321 LANG=C "$@"; }
bob() { as bob 4322 XDG_RUNTIME_DIR=/run/user/4322 "$@"; }
held() { # WORDS, then a command that must end well
  local words=$1
  shift
  if out=$("$@" 2>&1); then
    echo "held: $words"
  else
    echo "FAILED: $words"
    echo "$out"
    systemctl status --no-pager -l holdpoint@ada.service bob.service
    exit 1
  fi
}
unit=holdpoint@ada.service
pid() { systemctl show -P MainPID $unit; }
card() { # of WHO, the one that waits
  "$1" holdpoint review list --json | grep -o 'ap_[a-z2-7]*' | head -n 1
}
until_is() { for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }
systemctl daemon-reload
held "the socket starts the daemon, which says that it is ready" systemctl start holdpoint@ada.socket $unit
held "it says what it serves" test "$(systemctl show -P StatusText $unit)" = "serving 1 root"
held "no passphrase stands in the journal" bash -c "! journalctl -u $unit --no-pager | grep -i 'passphrase:'"
held "a reviewer is set while it runs" ada holdpoint init reviewer
held "a client finds the socket by itself" ada holdpoint status
held "an edit" ada holdpoint call edit_file path=a.txt old_string=one new_string=two
held "an undo" ada holdpoint undo @
held "a rehearsal is held, once the reviewer is known" until_is ada 'holdpoint call workspace_shell command=sh args:='"'"'["-c","echo hi >new.txt; cat a.txt"]'"'"' rehearse:=true; test $? = 3'
held "it runs on its view when it is released" ada "holdpoint review approve $(card ada)"
held "nothing has changed" test ! -e /srv/ada/project/new.txt
held "its change set lands" ada "holdpoint review approve $(card ada)"
held "it has landed" test -e /srv/ada/project/new.txt
ada 'holdpoint call workspace_shell command=sh args:='"'"'["-c","cat /srv/ada/.local/state/holdpoint/journal.db >/dev/null 2>&1 && exit 9; exit 0"]'"'" || true
held "a confined program does not see the state" ada "holdpoint review approve $(card ada) --json | grep -q '\"exit_code\":0'"
ada holdpoint call delete_file path=a.txt || true
before=$(pid)
held "a reload is none of the process" systemctl reload $unit
held "the process is the same" test "$(pid)" = "$before"
cp /usr/bin/holdpoint /usr/bin/holdpoint.new && mv /usr/bin/holdpoint.new /usr/bin/holdpoint
held "an upgrade in place" systemctl restart $unit
held "the pending card is still there, and can be answered" ada "holdpoint review approve $(card ada)"
mkdir -p /etc/systemd/system/$unit.d && printf '[Service]\nWatchdogSec=2s\n' >/etc/systemd/system/$unit.d/try.conf
systemctl daemon-reload
systemctl restart $unit
before=$(pid)
kill -STOP "$before"
held "a daemon that hangs is noticed by the watchdog and started anew" until_is bash -c "p=\$(systemctl show -P MainPID $unit); test \$p != $before -a \$p != 0"
held "it serves again" until_is ada holdpoint status
systemctl stop $unit
held "a client wakes it up through the socket" ada holdpoint log
systemd-analyze security --no-pager $unit | tail -n 1

# The user's own unit, under a manager that is bob and nothing more, as a log-in starts one.
mkdir -p /run/user && install -d -m 0700 -o bob -g bob /run/user/4322
held "a manager of bob's own" systemd-run -q --unit=bob -p Type=notify -p User=bob -p Delegate=yes --setenv=XDG_RUNTIME_DIR=/run/user/4322 --setenv=HOME=/srv/bob /lib/systemd/systemd --user
unit=holdpoint.service
bobs() { bob systemctl --user show -P "$1" $unit; }
held "bob's socket starts bob's daemon" bob systemctl --user start holdpoint.socket $unit
held "bob: it says what it serves" test "$(bobs StatusText)" = "serving 1 root"
held "bob: it is bob's" test "$(stat -c %U "/proc/$(bobs MainPID)")" = bob
held "bob: a reviewer is set while it runs" bob holdpoint init reviewer
held "bob: a client finds the socket by itself" bob holdpoint status
held "bob: an edit" bob holdpoint call edit_file path=a.txt old_string=one new_string=two
held "bob: an undo" bob holdpoint undo @
held "bob: a rehearsal is held" until_is bob 'holdpoint call workspace_shell command=sh args:='"'"'["-c","echo hi >new.txt"]'"'"' rehearse:=true; test $? = 3'
held "bob: it runs on its view when it is released" bob "holdpoint review approve $(card bob)"
held "bob: nothing has changed" test ! -e /srv/bob/project/new.txt
held "bob: its change set lands" bob "holdpoint review approve $(card bob)"
held "bob: it has landed" test -e /srv/bob/project/new.txt
bob 'holdpoint call workspace_shell command=sh args:='"'"'["-c","cat /srv/bob/.local/state/holdpoint/journal.db >/dev/null 2>&1 && exit 9; exit 0"]'"'"'; true'
held "bob: a confined program does not see the state" bob "holdpoint review approve $(card bob) --json | grep -q '\"exit_code\":0'"
bob holdpoint call delete_file path=a.txt || true
before=$(bobs MainPID)
held "bob: a reload is none of the process" bob systemctl --user reload $unit
held "bob: the process is the same" test "$(bobs MainPID)" = "$before"
held "bob: an upgrade in place" bob systemctl --user restart $unit
held "bob: the pending card can be answered" bob "holdpoint review approve $(card bob)"
kill -KILL "$(bobs MainPID)"
held "bob: a daemon that dies is started anew" until_is bob holdpoint status
bob systemctl --user stop $unit
held "bob: a client wakes it up through the socket" bob holdpoint log
echo 'all held'
