#!/bin/sh
grep -q '"prompt":"Do the work."' && echo '{"decision":"deny","reason":"not today"}'
