"""The conformance kit and its runner: what an implementation of the operations answers, held against the right answers.

An implementation is any program that reads questions and writes answers, a line each; `conformance/README.md` has their
format. Whatever it does, that is an answer of its own: a crash, a hang and a line that is none have their verdicts, and
end neither the run nor this process.
"""
