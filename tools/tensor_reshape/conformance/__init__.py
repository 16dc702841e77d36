"""The conformance suite and its runner, which compares the answers of an implementation with the right ones.

An implementation is a program that reads queries and writes answers, one a line. `conformance/README.md` describes the
format. A crash, a hang or an invalid line is a verdict about one case. It never ends the run or this process.
"""
