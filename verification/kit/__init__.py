"""The conformance kit in `conformance/`: how its cases are made, checked, and shown to be worth having."""
