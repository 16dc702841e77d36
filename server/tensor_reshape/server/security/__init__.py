"""Who may call: certificates and tokens, the identities that they prove, and what each identity may ask for."""
