#!/bin/sh
# Builds the jar of every Java sample into a folder.
#
#   build_java.sh <outdir> [<folder of storlet-api.jar>]   default: parent folder of <outdir>
#
# A sample's classes are in the folder's src/, its jar has the name of "file" in manifest.json.
# Needs a JDK 17 and Python 3. Equal sources give equal jars. One compiler compiles all samples,
# because starting it takes longer than its work. Strings are concatenated inline
# (-XDstringConcat=inline): otherwise the first concatenation makes the JVM load its class writer,
# which takes some ten milliseconds of a first run.
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

# One process for all jars, which are zip files: a start of "jar" takes a third of a second.
python3 - "$work/classes" "$outdir" <<'END'
import glob
import json
import os
import sys
import zipfile

classes, outdir = sys.argv[1:]
for folder in sorted(glob.glob("java_*")):
    with open(f"{folder}/manifest.json", encoding="utf-8") as file:
        name = json.load(file)["file"]
    packages = {
        os.path.relpath(place, f"{folder}/src")
        for place, _, names in os.walk(f"{folder}/src")
        if any(each.endswith(".java") for each in names)
    }
    found = [path for each in packages for path in glob.glob(f"{classes}/{each}/*.class")]
    with zipfile.ZipFile(f"{outdir}/{name}.new", "w", zipfile.ZIP_DEFLATED) as jar:
        for path in sorted(found):
            entry = zipfile.ZipInfo(os.path.relpath(path, classes), (2024, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            with open(path, "rb") as file:
                jar.writestr(entry, file.read())
    os.replace(f"{outdir}/{name}.new", f"{outdir}/{name}")
END
