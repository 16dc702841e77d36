"""Strangers who mean harm: each attack is a function of an address that goes on until its process is ended.

An attack may come back early: it is begun again, as an attacker would whose connection was closed. None of them looks
at what it does to others; that is what `polite_clients` are for.
"""
