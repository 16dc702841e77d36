"""The log lines of calls, their metrics and their traces, and the port that Prometheus scrapes."""
