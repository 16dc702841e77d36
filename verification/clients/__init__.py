"""Has clients that nobody here wrote make the same calls, and compares what each one gets with what the rules give."""
