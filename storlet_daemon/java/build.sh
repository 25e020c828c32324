#!/bin/sh
# Builds the Java parts of the sandbox into a folder: the author's API, the worker, the libraries
# that storlets expect, the native library, and the script that makes the class archive inside the
# image.
#
#   build.sh [--test] <outdir>      --test also runs the unit tests
#
# Needs Maven, a JDK 17 and gcc. A build of unchanged sources does nothing; no file is written
# beside the sources.
set -eu

tests=-Dmaven.test.skip=true
if [ "${1:-}" = --test ]; then
    tests=-Dmaven.test.failure.ignore=false
    shift
fi
if [ $# -ne 1 ]; then
    echo "usage: build.sh [--test] <outdir>" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
outdir=$(cd "$1" && pwd)
javac=$(readlink -f "$(command -v javac)")
java_home=${JAVA_HOME:-$(dirname "$(dirname "$javac")")}

cd "$here"
sources=$(find . -type f ! -name README.rst | LC_ALL=C sort)
# A start of the compiler takes a fifth of a second; not every JDK has the file.
version() { cat "$java_home/release" 2>/dev/null || "$javac" -version; }
digest=$({ echo "$sources" | tr '\n' '\0' | xargs -0 sha256sum; version; gcc --version; echo "$tests"; } 2>&1 | sha256sum)
if [ "$(cat "$outdir/.digest" 2>/dev/null)" = "$digest" ]; then
    exit 0
fi
rm -f "$outdir/.digest"

work=$(mktemp -d "${TMPDIR:-/tmp}/storlet-java.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp -R pom.xml storlet-api storlet-worker "$work/"

gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIC -shared -fvisibility=hidden \
    -Wl,-z,relro,-z,now -I"$java_home/include" -I"$java_home/include/linux" -o "$work/libstorletjni.so" jni/storletjni.c

# Maven runs for seconds: the optimizing compiler would use twice the processor time.
MAVEN_OPTS=${MAVEN_OPTS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC}
export MAVEN_OPTS

# First without the network: this is faster, and works offline once all parts have been fetched.
if ! (cd "$work" && mvn -q -B -Dstyle.color=never -o "$tests" package) >"$work/offline.log" 2>&1; then
    if [ "$tests" != -Dmaven.test.skip=true ] && ! grep -q 'offline mode' "$work/offline.log"; then
        cat "$work/offline.log" >&2
        exit 1
    fi
    (cd "$work" && mvn -q -B -Dstyle.color=never "$tests" package)
fi

rm -f "$outdir"/*.jar
cp "$work"/storlet-worker/target/lib/*.jar "$work"/storlet-worker/target/storlet-worker.jar "$outdir/"
cp "$work/libstorletjni.so" make-cds.sh classes.list "$outdir/"
echo "$digest" >"$outdir/.digest"
