# The daemon with a shell and git beside it, for programs that people release. Build: docker
# build -t holdpoint . ; docs/operating.md says what a container takes away.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY . .
ARG VERSION=v0.0.0+container
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=$VERSION" -o /holdpoint ./cmd/holdpoint

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git && rm -rf /var/lib/apt/lists/*
COPY --from=build /holdpoint /usr/bin/holdpoint
# Whoever --user names makes its own state there, 0700; nobody else may rename it.
ENV HOLDPOINT_STATE=/state/holdpoint
RUN install -d -m 1777 /state
VOLUME /state
# Beyond the container's loopback only where the port is published to the host's own.
CMD ["holdpoint", "serve", "--root", "/srv/project", "--listen", "0.0.0.0:7117", "--insecure-listen"]
