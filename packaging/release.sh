#!/bin/sh
# Builds everything that is released into dist/: the same source, go and nfpm give the same
# bytes. usage: packaging/release.sh [linux/amd64 ...]   (all platforms where none is named)
#   VERSION   v1.2.3; else what git describe says
#   SIGN_KEY  an ssh key that signs SHA256SUMS; unsigned without one, and said so
set -eu
cd "$(dirname "$0")/.."
out=${DIST:-dist}
VERSION=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}
case $VERSION in
v[0-9]*) ;;
*) VERSION=v0.0.0+$VERSION ;; # of no release, and older than any
esac
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH CGO_ENABLED=0
rm -rf "$out"
mkdir -p "$out"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

build() { # GOOS GOARCH FILE
  GOOS=$1 GOARCH=$2 go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=$VERSION" -o "$3" ./cmd/holdpoint
}

# The manual and the completions are the same everywhere: any build can write them.
mkdir -p "$stage/man" "$stage/completions" "$stage/bin"
build "$(go env GOHOSTOS)" "$(go env GOHOSTARCH)" "$stage/here"
"$stage/here" man "$stage/man"
gzip -9n "$stage"/man/*
for shell in bash zsh fish; do "$stage/here" completion $shell >"$stage/completions/$shell"; done

for platform in ${*:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}; do
  os=${platform%/*} arch=${platform#*/}
  name=holdpoint_${VERSION#v}_${os}_$arch
  case $os in
  windows)
    build "$os" "$arch" "$out/$name.exe"
    continue
    ;;
  esac
  build "$os" "$arch" "$stage/bin/holdpoint"
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$stage" -cf - bin man completions | gzip -6n >"$out/$name.tar.gz"
  if [ "$os" = linux ]; then
    for kind in deb rpm; do
      sed -e "s|\${VERSION}|${VERSION#v}|; s|\${ARCH}|$arch|; s|\${STAGE}|$stage|" packaging/nfpm.yaml >"$stage/nfpm.yaml"
      bin/nfpm package --config "$stage/nfpm.yaml" --packager $kind --target "$out/$name.$kind"
    done
  fi
done
go run ./internal/release sbom "$out/holdpoint_${VERSION#v}.cdx.json" "$VERSION"
(cd "$out" && sha256sum -- * >SHA256SUMS)
if [ -n "${SIGN_KEY:-}" ]; then
  ssh-keygen -q -Y sign -n holdpoint-release -f "$SIGN_KEY" "$out/SHA256SUMS"
else
  echo "not signed: SIGN_KEY names no key" >&2
fi
ls -l "$out"
