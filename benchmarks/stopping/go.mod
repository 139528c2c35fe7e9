module sluice.dev/benchmarks/stopping

go 1.26
