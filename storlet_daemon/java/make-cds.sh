#!/bin/sh
# Replaces the JVM's own class archive by one that holds what storlet workers load (classes.list beside this script), not what desktop
# programs load: an idle worker is 6 MB smaller, at the same start time. To be run once by whoever builds the sandbox
# image, inside of it, because an archive fits only the JVM that has made it.
#
#   make-cds.sh [<archive>]      default: the JVM's default archive
#
# Only classes of the JDK are in it. With the worker's own, the JVM would refuse the archive, and start five times slower,
# whenever a jar of ours is not where and what it was.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
java=$(readlink -f "${JAVA:-/usr/bin/java}")
archive=${1:-$(dirname "$(dirname "$java")")/lib/server/classes.jsa}
new=$archive.new
trap 'rm -f "$new"' EXIT

# The collector is that of the workers. Classes that this JVM does not have are left out without a word.
dump() {
    "$java" -XX:+UseSerialGC -Xshare:dump -Xlog:disable -Xlog:all=error:stderr \
        -XX:SharedClassListFile="$here/classes.list" -XX:SharedArchiveFile="$new" >/dev/null
}

# -Xshare:on: fail, do not start without it.
check() {
    "$java" -XX:+UseSerialGC -Xshare:on -XX:SharedArchiveFile="$new" -version 2>/dev/null
}

if dump && check; then
    chmod 0644 "$new"
    mv "$new" "$archive"
else
    # Workers run without it just as well, only larger.
    echo "make-cds.sh: this JVM makes no usable class archive; its own stays in place" >&2
fi
