"""The owner's rules: the policy record, its plain form, and whether it can keep its promise."""
