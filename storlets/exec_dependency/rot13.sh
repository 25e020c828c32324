#!/bin/sh
# Copy standard input to standard output, with each letter rotated by 13.
exec tr 'A-Za-z' 'N-ZA-Mn-za-m'
