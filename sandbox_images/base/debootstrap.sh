#!/bin/bash
# Makes the base of the sandbox image where no image registry can be reached. Bootstraps Debian 12
# in the directory $1, trims it, writes it to standard output as a tar file (messages are written to
# standard error) and removes the directory. STORLETS_MIRROR names another Debian mirror than
# debootstrap's default.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tree=${1:?a directory to work in}
include=$(paste -sd, "$here/packages")

trap 'rm -rf --one-file-system "$tree"' EXIT
mkdir -p "$tree"
debootstrap --variant=minbase --include="$include" bookworm "$tree" ${STORLETS_MIRROR:+"$STORLETS_MIRROR"} >&2
umount -R "$tree/proc" "$tree/sys" 2>/dev/null || true
sh "$here/trim.sh" "$tree" >&2
tar -C "$tree" --one-file-system --numeric-owner -c .
