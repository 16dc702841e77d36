"""Exports of torch, which are the models of tests."""
