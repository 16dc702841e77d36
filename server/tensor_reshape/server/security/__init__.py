"""Authentication and authorization of callers, with certificates, tokens, identities and permissions."""
