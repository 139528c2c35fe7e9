"""Whether it stays as it is: the server for twenty minutes of churn."""
