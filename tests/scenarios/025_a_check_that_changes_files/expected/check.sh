echo trace > trace.txt; echo b > a.txt
