#!/bin/bash
# Creates the MySQL accounts of wallet-api and of the service `purge`, a key with which the service `checkout` calls it, and a key of receipts. compose.yaml
# runs it at each `up`; a second run changes nothing.
#
#   accounts.sh GRANTS_FILE KEYS_FOLDER MYSQL_ARGUMENT...
#
# KEYS_FOLDER gets `service-keys`, the file that wallet-api reads, `checkout`, the key itself, and `receipt-keys`. The arguments
# from the third on are for the mysql client, as an administrator.
set -euo pipefail

grants=$1 keys=$2
shift 2

for account in jajeong_wallet jajeong_privacy; do
	echo "CREATE USER IF NOT EXISTS $account IDENTIFIED BY 'jajeong';"
	grep "TO $account;$" "$grants"
done | mysql "$@"

if [ ! -e "$keys/service-keys" ]; then
	key=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n') # as `openssl rand -hex 32`, which the image lacks
	echo "$key" >"$keys/checkout"
	sum=$(printf %s "$key" | sha256sum)
	echo "checkout ${sum%% *}" >"$keys/service-keys"
fi

if [ ! -e "$keys/receipt-keys" ]; then
	echo "1 $(head -c 32 /dev/urandom | base64)" >"$keys/receipt-keys"
fi
