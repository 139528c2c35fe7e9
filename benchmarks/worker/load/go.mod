module sluice.dev/benchmarks/worker/load

go 1.26
