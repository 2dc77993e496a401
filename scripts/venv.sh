# Sourced by the scripts beside it: makes .venv with the pinned packages, if it is not there yet.
# Needs Python 3.11 or newer, and nothing else.

find_python() {
    local candidate
    for candidate in python3 python3.11 python3.12 python3.13 python3.14 python; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
            2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "No Python 3.11 or newer with the venv module was found: please install one." >&2
    return 1
}

# make_venv EXTRAS: EXTRAS is such as "[dashboard]" or "[test]".
make_venv() {
    local extras="$1" python wanted stamp
    if ! [ -x .venv/bin/python ]; then
        python="$(find_python)"
        "$python" -m venv .venv
    fi
    wanted="$(cat pyproject.toml constraints.txt | .venv/bin/python -c \
        'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')"
    stamp=".venv/installed$extras"
    if ! [ -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
        echo "Installing into .venv (once; a few minutes) ..."
        .venv/bin/python -m pip install --quiet --disable-pip-version-check \
            --constraint constraints.txt --editable ".$extras"
        echo "$wanted" >"$stamp"
    fi
}
