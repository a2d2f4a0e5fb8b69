#!/bin/sh
# Prints a Python of 3.11 or newer: $PYTHON if set, else the first of the usual names.
# Fails with one line that says what to do.
set -u

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
    if new_enough "$name"; then
        echo "$name"
        exit 0
    fi
done
found=$("${PYTHON:-python3}" --version 2>/dev/null) || found="no working ${PYTHON:-python3}"
echo "error: Tokenweir needs Python 3.11 or newer, found $found; install one, or name it: make PYTHON=/path/to/python3.11" >&2
exit 1
