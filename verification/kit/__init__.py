"""Makes and checks the cases of the conformance suite in `conformance/`."""
