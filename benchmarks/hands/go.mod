module sluice.dev/benchmarks/hands

go 1.26
