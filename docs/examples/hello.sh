#!/bin/sh
# Greets each line of the object; the parameter "greeting" is in the environment.
while read -r name; do
    printf '%s, %s!\n' "${STORLET_PARAM_greeting:-Hello}" "$name"
done
