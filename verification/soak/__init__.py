"""Sends many mixed calls to a server, and watches what it takes."""
