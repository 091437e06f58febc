# syntax=docker/dockerfile:1

# Both programs, each one static file, and nothing else but CA certificates: no shell, no package, no root.
#
#   docker build --build-arg VERSION="$(git describe --tags --always --dirty)" -t jajeong:dev .
#   docker run --rm jajeong:dev settle --help

# The compiler runs on the builder's own architecture and compiles for the image's.
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH
ARG VERSION=dev
# The programs bring the time zones themselves (time/tzdata).
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/ ./cmd/apply-api ./cmd/settle

FROM gcr.io/distroless/static-debian12
COPY --from=build /out/ /usr/local/bin/
# By number: with a name Kubernetes could not tell that it is not root.
USER 65532:65532
EXPOSE 8080 9090
CMD ["apply-api"]
