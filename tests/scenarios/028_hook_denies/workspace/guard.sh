#!/bin/sh
# Denies what touches the file `kept`, allows the rest by saying nothing.
if grep -q '"cmd":"touch kept"'; then
  echo '{"decision":"deny","reason":"kept stays as it is"}'
fi
