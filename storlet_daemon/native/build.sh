#!/bin/sh
# Builds the native parts of the sandbox into a folder: the worker, and storlet.h.
#
#   build.sh <outdir>
#
# Needs gcc and libjansson-dev, whose library is linked statically. Writes no file beside the
# sources.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: build.sh <outdir>" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"

gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIE -pie \
    -Wl,-z,relro,-z,now -o "$1/storlet-worker" "$here"/src/*.c -l:libjansson.a
cp "$here/storlet.h" "$1/"
