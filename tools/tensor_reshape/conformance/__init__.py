"""Runs the conformance suite, and compares the answers of an implementation with the right answers.

An implementation is a program that reads queries and writes answers, one per line. The file `conformance/README.md`
describes the format of the lines. If an implementation crashes, hangs or writes an invalid line, this affects only the
verdict about one test case. Such a failure never ends this process.
"""
