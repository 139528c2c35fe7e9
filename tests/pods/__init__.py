"""Tests with real kubelets and real pods: `make test-pods`. Root only; `make test` does not read them."""
