#!/usr/bin/env bash
# Every test that names a hostile case, with tests, daemons and all as an ordinary user, on a
# copy of this tree: what is built is built by root, who starts this, and nothing else is.
# What a case leaves to root is printed with the reason its test gives; a case that was not
# run, failed or was skipped without such a reason ends this with an error.
set -euo pipefail
user=${1:?the uid to run as} log=$PWD/bin/security-user.log
test "$(id -u)" = 0 || { echo 'only root can become another user' >&2; exit 2; }
dir=$(mktemp -d /tmp/hpuser.XXXXXX)
trap 'rm -rf "$dir"' EXIT
mkdir -p bin "$dir/src" "$dir/tmp" "$dir/bin"
git ls-files -z | xargs -0 cp --parents -t "$dir/src"
go build -o "$dir/bin/holdpoint" ./cmd/holdpoint
go run ./internal/requirements -cases S >"$dir/cases"
sed -i '/^internal\/e2e /s/(/(TestOwnInputs|/' "$dir/cases" # inputs of our own, more of each kind, under no id
while read -r pkg _; do go test -c -o "$dir/bin/${pkg//\//-}.test" "./$pkg"; done <"$dir/cases"
chown -R "$user:$user" "$dir"
mkdir "$dir/another" "$dir/another/dir"
echo '{"policies":[]}' >"$dir/another/file"
chown -R 1234:1234 "$dir/another/dir" "$dir/another/file"
chmod 0700 "$dir/another/dir"
status=0
while read -r pkg tests <&3; do
  echo "== $pkg"
  (cd "$dir/src/$pkg" && exec setpriv --reuid="$user" --regid="$user" --clear-groups env HOME="$dir" TMPDIR="$dir/tmp" HOLDPOINT_TEST_DIR="$dir/tmp" HOLDPOINT_TEST_ANOTHER="$dir/another" \
    GOCACHE="$dir/tmp/cache" HOLDPOINT_E2E_APART="$dir/bin/holdpoint" "$dir/bin/${pkg//\//-}.test" -test.timeout 50m -test.v -test.run "$tests") || status=1
done 3<"$dir/cases" >"$log" 2>&1
grep -E '^(--- FAIL|panic:)|^ +--- FAIL' "$log" || true
go run ./internal/requirements -cases S -ran "$log" || status=1
exit $status
