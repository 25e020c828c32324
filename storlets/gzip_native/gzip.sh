#!/bin/sh
# Compresses the object with the gzip of the sandbox.
set -eu
eval "exec 9>&$STORLET_METADATA_FD"
printf '{"Content-Type": "application/gzip"}' >&9
exec gzip -n "-${STORLET_PARAM_level:-6}"
