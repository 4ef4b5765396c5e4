#!/bin/sh
# Builds the release twice, of linux or of the platforms that are named: here, and from a copy in another place with an empty
# build cache. Every file must be the same to the last byte.
set -eu
cd "$(dirname "$0")/.."
# The other place has the last commit: what is not in it would be found as a difference.
git diff --quiet HEAD || { echo "there are changes that are not committed" >&2; exit 1; }
platforms=${*:-linux/amd64 linux/arm64}
other=$(mktemp -d)
trap 'chmod -R u+w "$other"; rm -rf "$other"' EXIT
VERSION=v0.0.1 DIST=dist packaging/release.sh $platforms >/dev/null
git clone -q . "$other/elsewhere"
mkdir "$other/elsewhere/bin"
cp bin/nfpm "$other/elsewhere/bin/nfpm"
(cd "$other/elsewhere" && GOCACHE=$other/cache VERSION=v0.0.1 DIST=dist packaging/release.sh $platforms >/dev/null)
diff -r dist "$other/elsewhere/dist"
cat dist/SHA256SUMS
echo "the same bytes from two places"
