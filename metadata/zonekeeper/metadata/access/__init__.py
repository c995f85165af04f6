"""Who may do what with which node: the table of rights, the identities of roles, and the ACLs."""
