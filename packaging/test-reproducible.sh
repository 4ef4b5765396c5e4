#!/bin/sh
# Builds the release of linux/amd64 twice: here, and from a copy in another place with an empty
# build cache. Every file must be the same to the last byte.
set -eu
cd "$(dirname "$0")/.."
other=$(mktemp -d)
trap 'chmod -R u+w "$other"; rm -rf "$other"' EXIT
VERSION=v0.0.1 DIST=dist packaging/release.sh linux/amd64 linux/arm64 >/dev/null
git clone -q . "$other/elsewhere"
mkdir "$other/elsewhere/bin"
cp bin/nfpm "$other/elsewhere/bin/nfpm"
(cd "$other/elsewhere" && GOCACHE=$other/cache VERSION=v0.0.1 DIST=dist packaging/release.sh linux/amd64 linux/arm64 >/dev/null)
diff -r dist "$other/elsewhere/dist"
cat dist/SHA256SUMS
echo "the same bytes from two places"
