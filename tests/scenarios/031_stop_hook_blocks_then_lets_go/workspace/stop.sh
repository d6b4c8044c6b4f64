#!/bin/sh
test -e answer || echo '{"decision":"block","reason":"the file answer is missing"}'
