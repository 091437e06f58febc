#!/bin/sh
# Installs missing programs for the tests and the demo.
#
#   scripts/setup.sh [servers] [monitoring] [race] [clients] [k8s]      default: all groups but k8s
#
#   servers      redis-server 7.0+, MariaDB 10.6+ (or an installed Oracle mysqld 8.0+) with its programs for dumps and binary
#                logs, Galera 4, kcat, a Kafka client, and jq, for the tests of k8s/settle.sh
#   monitoring   prometheus with promtool, and its Pushgateway
#   race         a C compiler, for the race detector
#   clients      Node.js 18+ and npm, and Chromium with a Korean font, for the tests of generated clients and of the page
#   k8s          etcd 3.4+, for the tests in k8s/e2e
#
# The script is silent if nothing is missing. It starts and enables no system service, because the tests
# start servers as child processes. The servers are needed even with TEST_MYSQL_DSN and TEST_REDIS_ADDRS,
# because fault tests kill and freeze servers of their own.
set -eu

# internal/testenv/process searches the same folders. Keep both lists equal.
SERVER_PATH="$PATH:/usr/sbin:/usr/local/sbin:/usr/libexec:/usr/local/bin:/usr/local/mysql/bin:/opt/homebrew/bin:/opt/homebrew/opt/redis/bin:/opt/homebrew/opt/mariadb/bin:/opt/homebrew/opt/mysql/bin:/usr/local/opt/redis/bin:/usr/local/opt/mariadb/bin:/usr/local/opt/mysql/bin"
OS=$(uname -s)

main() {
	servers='' monitoring='' race='' clients='' k8s=''
	[ $# -gt 0 ] || set -- servers monitoring race clients
	for group; do
		case $group in
		servers) servers=1 ;;
		monitoring) monitoring=1 ;;
		race) race=1 ;;
		clients) clients=1 ;;
		k8s) k8s=1 ;;
		*) fail 2 "unknown group '$group': want servers, monitoring, race, clients, k8s or several of them" ;;
		esac
	done

	missing=''
	if [ -n "$servers" ]; then
		have_redis || missing="$missing redis"
		have_database || missing="$missing database"
		have_dump || missing="$missing dump"
		have_galera || missing="$missing galera"
		have_server kcat || missing="$missing kcat"
		have_server jq || missing="$missing jq"
	fi
	if [ -n "$monitoring" ]; then
		have_prometheus || missing="$missing prometheus"
		have_pushgateway || missing="$missing pushgateway"
	fi
	if [ -n "$race" ]; then
		have_compiler || missing="$missing compiler"
	fi
	if [ -n "$clients" ]; then
		have_node || missing="$missing node"
		command -v npm >/dev/null || missing="$missing npm"
		have_browser || missing="$missing chromium"
	fi
	if [ -n "$k8s" ]; then
		have_etcd || missing="$missing etcd"
	fi
	[ -n "$missing" ] || exit 0
	install

	case $missing in
	*redis*) have_redis || fail 1 "the redis-server of this system's packages is too old. Please install Redis 7.0 or later." ;;
	esac
	case $missing in
	*etcd*) have_etcd || fail 1 "the etcd of this system's packages is too old. Please install etcd 3.4 or later." ;;
	esac
	case $missing in
	*node*) have_node || fail 1 "the Node.js of this system's packages is too old. Please install Node.js 18 or later." ;;
	esac
	case $missing in
	*pushgateway*) have_pushgateway || fail 1 "this system's packages have no Pushgateway. Please install one from https://github.com/prometheus/pushgateway/releases into a folder of PATH." ;;
	esac
}

install() {
	if [ "$OS" = Darwin ]; then
		install_brew
	elif command -v apt-get >/dev/null; then
		install_apt
	elif command -v dnf >/dev/null; then
		install_dnf
	else
		fail 1 "none of apt-get, dnf and brew is installed. Please install:$(needed)"
	fi
}

have_server() (
	PATH=$SERVER_PATH
	command -v "$1" >/dev/null
)

have_redis() (
	PATH=$SERVER_PATH
	major=$(redis-server --version 2>/dev/null | sed -n 's/.* v=\([0-9]*\)\..*/\1/p')
	[ "${major:-0}" -ge 7 ]
)

have_etcd() (
	PATH=$SERVER_PATH
	minor=$(etcd --version 2>/dev/null | sed -n 's/^etcd Version: 3\.\([0-9]*\)\..*/\1/p')
	[ "${minor:-0}" -ge 4 ]
)

# internal/testenv/process searches the same names.
have_browser() {
	have_server chromium || have_server chromium-browser || have_server google-chrome
}

have_node() {
	major=$(node --version 2>/dev/null | sed -n 's/^v\([0-9]*\)\..*/\1/p')
	[ "${major:-0}" -ge 18 ]
}

# mariadb-install-db needs my_print_defaults from the client package.
have_database() {
	if [ -n "${TESTENV_MYSQLD:-}" ]; then
		[ -x "$TESTENV_MYSQLD" ]
	elif have_server mariadbd; then
		have_server mariadb-install-db && have_server my_print_defaults
	else
		have_server mysqld
	fi
}

have_dump() {
	if have_server mariadbd; then
		have_server mariadb-dump && have_server mariadb-binlog
	else
		have_server mysqldump && have_server mysqlbinlog
	fi
}

# internal/testenv/topology searches the same folders.
have_galera() {
	! have_server mariadbd && [ -n "${TESTENV_MYSQLD:-}" ] ||
		ls /usr/lib/galera/libgalera_smm.so /usr/lib64/galera-4/libgalera_smm.so /usr/lib64/galera/libgalera_smm.so \
			/opt/homebrew/lib/libgalera_smm.so /usr/local/lib/libgalera_smm.so 2>/dev/null | grep -q .
}

have_prometheus() {
	have_server prometheus && have_server promtool
}

# Debian calls the program prometheus-pushgateway.
have_pushgateway() {
	have_server prometheus-pushgateway || have_server pushgateway
}

# The race detector links with a C compiler, except on macOS.
have_compiler() {
	[ "$OS" = Darwin ] ||
		echo '#include <stdlib.h>' | ${CC:-gcc} -E - >/dev/null 2>&1
}

# packages prints the packages of the missing programs for a package manager, each behind a space.
packages() {
	for need in $missing; do
		case $1:$need in
		apt:redis) printf ' redis-server' ;;
		dnf:redis) printf ' /usr/bin/redis-server' ;; # by file, because some releases have it in the package valkey
		apt:database) printf ' %s' "$(apt_database)" ;;
		apt:dump) printf ' mariadb-client' ;;
		apt:galera | dnf:galera) printf ' galera-4' ;;
		brew:galera) ;; # has none: the tests of Galera need Linux
		dnf:database) printf ' mariadb-server' ;;
		dnf:dump | brew:dump) printf ' mariadb' ;;
		brew:database) printf ' mariadb' ;;
		dnf:prometheus) printf ' /usr/bin/prometheus /usr/bin/promtool' ;;
		apt:pushgateway) printf ' prometheus-pushgateway' ;;
		apt:compiler) printf ' gcc libc6-dev' ;;
		dnf:compiler) printf ' gcc glibc-devel' ;;
		*:compiler | *:pushgateway) ;; # macOS needs no compiler, and main prints where to get the Pushgateway
		apt:etcd) printf ' etcd-server' ;;
		apt:node | dnf:node) printf ' nodejs' ;;
		dnf:npm) printf ' nodejs-npm' ;;
		apt:chromium) printf ' chromium fonts-nanum' ;;
		dnf:chromium) printf ' chromium naver-nanum-gothic-fonts' ;;
		brew:npm) ;; # part of node
		*) printf ' %s' "$need" ;;
		esac
	done
}

install_apt() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
	packages=$(packages apt)
	say "installing with apt-get:$packages"
	hold_services
	# shellcheck disable=SC2086 # a list of words
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q -o DPkg::Lock::Timeout=120 --no-install-recommends $packages
	release_services
	for need in $missing; do
		case $need in
		redis) disable_service redis-server ;;
		prometheus) disable_service prometheus ;;
		pushgateway) disable_service prometheus-pushgateway ;;
		etcd) disable_service etcd ;;
		esac
	done
}

# The -core packages contain the programs without a service. On older Ubuntu releases their names end in the version.
apt_database() {
	server=mariadb-server-core
	if ! apt-cache policy $server | grep -q 'Candidate: [0-9]'; then
		server=$(apt-cache pkgnames $server- | sort -V | tail -n 1)
	fi
	echo "$server" "$(echo "$server" | sed s/server/client/)"
}

# Debian starts the service of a new package unless policy-rc.d exits with 101.
POLICY=/usr/sbin/policy-rc.d
held=''

hold_services() {
	[ -e "$POLICY" ] && return
	held=1
	trap release_services EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	# shellcheck disable=SC2016 # the root shell expands it
	as_root sh -c 'printf "#!/bin/sh\nexit 101\n" >"$1" && chmod 755 "$1"' sh "$POLICY"
}

release_services() {
	[ -z "$held" ] || as_root rm -f "$POLICY"
	held=''
}

# The package also enables the service for the next boot.
disable_service() {
	if command -v systemctl >/dev/null; then
		# Without a running systemd, --now is an error.
		now=''
		[ ! -d /run/systemd/system ] || now=--now
		# shellcheck disable=SC2086 # no argument if empty
		as_root systemctl --quiet disable $now "$1.service"
	elif command -v update-rc.d >/dev/null; then
		as_root update-rc.d "$1" disable
	fi
}

install_dnf() {
	packages=$(packages dnf)
	[ -n "$packages" ] || return 0
	say "installing with dnf:$packages"
	# shellcheck disable=SC2086 # a list of words
	as_root dnf install -y --setopt=install_weak_deps=False $packages
}

install_brew() {
	command -v brew >/dev/null || fail 1 "Homebrew is not installed (see https://brew.sh). Needed:$(needed)"
	packages=$(packages brew)
	[ -n "$packages" ] || return 0
	say "installing with brew:$packages"
	# shellcheck disable=SC2086 # a list of words
	brew install $packages
}

needed() {
	for need in $missing; do
		case $need in
		redis) printf '\n  redis-server 7.0 or later' ;;
		database) printf '\n  MariaDB 10.6 or later (mariadbd and mariadb-install-db), or Oracle mysqld 8.0 or later' ;;
		galera) printf '\n  galera 4 of MariaDB (libgalera_smm.so)' ;;
		dump) printf '\n  mariadb-dump and mariadb-binlog, or mysqldump and mysqlbinlog' ;;
		kcat) printf '\n  kcat' ;;
		prometheus) printf '\n  prometheus and promtool 2.42 or later' ;;
		pushgateway) printf '\n  the Pushgateway of Prometheus' ;;
		compiler) printf '\n  gcc and the C library headers, for go test -race' ;;
		etcd) printf '\n  etcd 3.4 or later' ;;
		jq) printf '\n  jq' ;;
		node) printf '\n  Node.js 18 or later' ;;
		npm) printf '\n  npm' ;;
		esac
	done
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		fail 1 "this needs root, and sudo is not installed. Please install as root:$(needed)"
	fi
}

say() { echo "setup: $*" >&2; }

fail() {
	code=$1
	shift
	say "$*"
	exit "$code"
}

main "$@"
