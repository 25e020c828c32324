#!/bin/sh
# Builds the jar of every Java sample into a folder.
#
#   build_java.sh <outdir> [<folder of storlet-api.jar>]      default: the folder that holds <outdir>
#
# A sample's classes are in the folder's src/, its jar has the name that manifest.json gives as "file". Needs a JDK 17. Equal sources
# give equal jars. All samples are compiled by one compiler, because starting it takes longer than its work. Texts are put together
# in place (-XDstringConcat=inline): the first that is not makes the JVM load what writes classes, some ten milliseconds of a first run.
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
javac --release 17 -g -Xlint:all -Werror -encoding UTF-8 -XDstringConcat=inline -cp "$api/storlet-api.jar" -d "$work/classes" "@$work/sources"

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
        jar --create --file "$work/$jar" --date=2024-01-01T00:00:00Z --no-manifest "@$work/$folder.list"
    )
    mv "$work/$jar" "$outdir/$jar"
done
