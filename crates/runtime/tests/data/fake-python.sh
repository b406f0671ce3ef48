#!/bin/sh
# Plays `python3 -m pip download ...` for the plugin tests.
#
# A test starts it through a link of its own. Beside the link lies `act`, shell lines that play one case;
# they find that folder as $here, the download folder as $dest, and each call is noted in `calls`.
here=$(dirname "$0")
echo "$*" >>"$here/calls"
while [ $# -gt 0 ]; do
    [ "$1" = --dest ] && dest=$2
    shift
done
. "$here/act"
