#!/bin/sh
# Installs, upgrades, removes and purges the packages of dist/ on a copy of this machine (an
# overlay that is gone afterwards; root), and sees that what a user's state holds stays.
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" != inside ]; then
  exec unshare -m --propagation private "$0" inside
fi
fail() { echo "FAILED: $*" >&2; exit 1; }
deb=$(ls dist/holdpoint_*_linux_amd64.deb) rpm=$(ls dist/holdpoint_*_linux_amd64.rpm)
base=$(mktemp -d)
trap 'umount -l "$base/t"; rmdir "$base/t" "$base"' EXIT
mkdir "$base/t" && mount -t tmpfs none "$base/t"
r=$base/t/root
machine() { # a fresh copy
  umount -l "$r" 2>/dev/null || true
  rm -rf "$base/t/up" "$base/t/work"
  mkdir -p "$base/t/up" "$base/t/work" "$r"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$base/t/up,workdir=$base/t/work" "$r"
  mount -t proc proc "$r/proc"
  mount -t tmpfs none "$r/run"
  rm -f "$r/usr/bin/holdpoint"
  echo 'ada:x:4321:4321::/srv/ada:/bin/sh' >>"$r/etc/passwd"
  mkdir -p "$r/srv/ada/project"
  echo precious >"$r/srv/ada/project/f"
  chown -R 4321:4321 "$r/srv/ada"
  cp "$deb" "$r/tmp/p.deb"
  cp "$rpm" "$r/tmp/p.rpm"
}
ada() { chroot "$r" setpriv --reuid 4321 --regid 4321 --clear-groups env -i PATH=/usr/bin:/bin HOME=/srv/ada HOLDPOINT_REVIEW_PASSPHRASE='only for tests 1' "$@"; }
use() { # a change, so that something is kept
  ada holdpoint call --root /srv/ada/project edit_file path=f old_string=precious new_string=gone >/dev/null
  kept=$(cd "$r/srv/ada" && find . -type f ! -name '*-wal' ! -name '*-shm' -exec sha256sum {} + | sort | sha256sum)
}
same() { [ "$kept" = "$(cd "$r/srv/ada" && find . -type f ! -name '*-wal' ! -name '*-shm' -exec sha256sum {} + | sort | sha256sum)" ] || fail "$1 touched what ada keeps"; }
installed() {
  for f in usr/bin/holdpoint usr/share/man/man1/holdpoint.1.gz usr/share/man/man5/holdpoint.toml.5.gz usr/share/bash-completion/completions/holdpoint \
    usr/lib/systemd/system/holdpoint@.service usr/lib/systemd/user/holdpoint.socket usr/share/doc/holdpoint/recovery.md; do
    [ -f "$r/$f" ] || fail "$1 has no $f"
  done
  chroot "$r" holdpoint version
  bash -n "$r/usr/share/bash-completion/completions/holdpoint"
}

machine
chroot "$r" dpkg -i /tmp/p.deb >/dev/null
installed deb
use
chroot "$r" dpkg -i /tmp/p.deb >/dev/null 2>"$base/t/said" # an upgrade says nothing and touches nothing
! grep -q keeps "$base/t/said" || fail "an upgrade speaks of a removal"
same "an upgrade of the deb"
chroot "$r" dpkg -r holdpoint >"$base/t/said"
grep -q 'ada keeps .* in /srv/ada/.local/state/holdpoint' "$base/t/said" && grep -q 'holdpoint export --since 30d' "$base/t/said" || fail "dpkg -r did not say what is held"
grep ^holdpoint: "$base/t/said"
[ ! -e "$r/usr/bin/holdpoint" ] || fail "dpkg -r left the program"
chroot "$r" dpkg -P holdpoint 2>&1 | tee "$base/t/said" >/dev/null
same "dpkg -P"
chroot "$r" dpkg -i /tmp/p.deb >/dev/null
ada holdpoint undo --root /srv/ada/project @ >/dev/null
[ "$(cat "$r/srv/ada/project/f")" = precious ] || fail "undo after a purge and a new installation"
chroot "$r" dpkg -r holdpoint >/dev/null
chroot "$r" dpkg -P holdpoint >/dev/null 2>&1 || true
echo "deb: installed, upgraded, removed, purged; undo worked afterwards"

machine
chroot "$r" rpm --initdb
chroot "$r" rpm -i --nodeps /tmp/p.rpm
installed rpm
use
chroot "$r" rpm -U --nodeps --replacepkgs /tmp/p.rpm
same "an upgrade of the rpm"
chroot "$r" rpm -e holdpoint >"$base/t/said"
grep -q 'ada keeps .* in /srv/ada/.local/state/holdpoint' "$base/t/said" && grep -q 'holdpoint export --since 30d' "$base/t/said" || fail "rpm -e did not say what is held"
[ ! -e "$r/usr/bin/holdpoint" ] || fail "rpm -e left the program"
same "rpm -e"
echo "rpm: installed, upgraded, removed; what was kept is as it was"
