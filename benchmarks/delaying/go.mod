module sluice.dev/benchmarks/delaying

go 1.26
