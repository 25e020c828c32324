#!/bin/sh
# Starts the jq beside this script with the libraries that are there, too.
folder=${0%/*}
export LD_LIBRARY_PATH="$folder"
exec "$folder/jq" "$@"
