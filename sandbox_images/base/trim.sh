#!/bin/sh
# Removes from the tree at $1 files that untrusted code does not need: caches, documents, other
# languages' messages, the package manager's state. Also removes every setuid or setgid bit, which
# could raise privileges.
set -eu
root=${1%/}

rm -rf "$root"/var/cache/apt "$root"/var/lib/apt "$root"/var/cache/debconf "$root"/var/log \
    "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/info "$root"/usr/share/lintian \
    "$root"/usr/share/locale "$root"/usr/share/bash-completion "$root"/debootstrap
# In a build this is a mount of the Docker engine, which cannot be removed; it is empty in the
# image.
rm -f "$root"/etc/resolv.conf 2>/dev/null || true
rm -rf "$root"/usr/bin/apt* "$root"/usr/bin/dpkg* "$root"/var/lib/dpkg "$root"/var/cache/ldconfig "$root"/var/backups
find "$root"/ -xdev -type f -perm /6000 -exec chmod a-s {} +
find "$root"/usr/lib/python3* -name __pycache__ -prune -exec rm -rf {} +
mkdir -p "$root"/var/lib/storlets "$root"/run/storlets "$root"/tmp "$root"/var/log
chmod 1777 "$root"/tmp
