#!/bin/sh
# Standard input to standard output, each letter turned by 13 places.
exec tr 'A-Za-z' 'N-ZA-Mn-za-m'
