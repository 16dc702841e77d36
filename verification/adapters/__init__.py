"""Runs the queries of the conformance suite against real libraries, and writes their answers to files."""
