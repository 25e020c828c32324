#!/bin/sh
# Replaces the JVM's class archive, made for desktop programs, by one with the classes that storlet
# workers load (classes.list beside this script): an idle worker is 6 MB smaller, at the same start
# time. Run it once in the build of the sandbox image, inside the image, because an archive fits
# only the JVM that made it.
#
#   make-cds.sh [<archive>]      default: the JVM's default archive
#
# It contains only classes of the JDK. With the worker's classes, the JVM would refuse the archive,
# and start five times slower, whenever a jar of the worker has moved or changed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
java=$(readlink -f "${JAVA:-/usr/bin/java}")
archive=${1:-$(dirname "$(dirname "$java")")/lib/server/classes.jsa}
new=$archive.new
trap 'rm -f "$new"' EXIT

# The garbage collector is that of the workers. Classes that this JVM lacks are left out silently.
dump() {
    "$java" -XX:+UseSerialGC -Xshare:dump -Xlog:disable -Xlog:all=error:stderr \
        -XX:SharedClassListFile="$here/classes.list" -XX:SharedArchiveFile="$new" >/dev/null
}

# -Xshare:on: fail instead of starting without the archive.
check() {
    "$java" -XX:+UseSerialGC -Xshare:on -XX:SharedArchiveFile="$new" -version 2>/dev/null
}

if dump && check; then
    chmod 0644 "$new"
    mv "$new" "$archive"
else
    # Workers also run without it, with more memory.
    echo "make-cds.sh: this JVM makes no usable class archive; its own stays in place" >&2
fi
