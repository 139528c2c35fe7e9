module sluice.dev/benchmarks/webhook

go 1.26.0
