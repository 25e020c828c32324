#!/bin/sh
# Copies the jq of this machine to out/, with those of its libraries that the sandbox lacks.
set -eu
mkdir -p out
cp -L "$(command -v jq)" out/jq
for library in libjq.so.1 libonig.so.5; do
    cp -L "$(ldd out/jq | awk -v name="$library" '$1 == name { print $3 }')" out/
done
