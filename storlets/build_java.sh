#!/bin/sh
# Builds the jar of every Java sample into a folder.
#
#   build_java.sh <outdir> [<folder of storlet-api.jar>]   default: parent folder of <outdir>
#
# A sample's classes are in the folder's src/, its jar has the name of "file" in manifest.json.
# Needs a JDK 17. Equal sources give equal jars. One compiler compiles all samples, because starting
# it takes longer than its work. Strings are concatenated inline (-XDstringConcat=inline): otherwise
# the first concatenation makes the JVM load its class writer, which takes some ten milliseconds of
# a first run.
set -eu

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: build_java.sh <outdir> [<folder of storlet-api.jar>]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
outdir=$(cd "$1" && pwd)
api=$(cd "${2:-$outdir/..}" && pwd)

work=$(mktemp -d "${TMPDIR:-/tmp}/storlet-samples.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$here"
# A javac argument file: one quoted name per line, for folders with spaces in their path.
find java_*/src -name '*.java' | LC_ALL=C sort | sed 's/.*/"&"/' >"$work/sources"
# For JVMs that run for a second.
short="-J-XX:+UseSerialGC -J-XX:TieredStopAtLevel=1"
# shellcheck disable=SC2086
javac $short --release 17 -g -Xlint:all -Werror -encoding UTF-8 -XDstringConcat=inline -cp "$api/storlet-api.jar" -d "$work/classes" "@$work/sources"

for folder in java_*; do
    jar=$(sed -n 's/.*"file": *"\([^"]*\.jar\)".*/\1/p' "$folder/manifest.json" | head -n 1)
    (
        cd "$folder/src"
        find . -name '*.java' -exec dirname {} + | LC_ALL=C sort -u
    ) | (
        cd "$work/classes"
        while read -r package; do
            find "$package" -maxdepth 1 -name '*.class'
        done
    ) | LC_ALL=C sort | sed 's/.*/"&"/' >"$work/$folder.list"
    (
        cd "$work/classes"
        # shellcheck disable=SC2086
        jar $short --create --file "$work/$jar" --date=2024-01-01T00:00:00Z --no-manifest "@$work/$folder.list"
    )
    mv "$work/$jar" "$outdir/$jar"
done
