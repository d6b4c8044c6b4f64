#!/bin/sh
grep -qx right answer.txt
