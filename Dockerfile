# syntax=docker/dockerfile:1

# The image holds three static programs and CA certificates. It has no shell, no packages and no root user.
#
#   docker build --build-arg VERSION="$(git describe --tags --always --dirty)" -t jajeong:dev .
#   docker run --rm jajeong:dev settle --help

# The compiler runs on the architecture of the builder and compiles for that of the image.
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH
ARG VERSION=dev
# The programs contain the time zones (time/tzdata).
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/ ./cmd/apply-api ./cmd/settle ./cmd/wallet-api

# compose.yaml alone uses this stage: settle beside a shell and a MySQL client.
FROM mysql:8.4 AS demo
COPY --from=build /out/settle /usr/local/bin/

FROM gcr.io/distroless/static-debian12
COPY --from=build /out/ /usr/local/bin/
# A number, not a name: Kubernetes then knows that the user is not root.
USER 65532:65532
EXPOSE 8080 8081 8082 9090 9092
CMD ["apply-api"]
