module sluice.dev/benchmarks/twin

go 1.26
