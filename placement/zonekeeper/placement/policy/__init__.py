"""The owner's rules: the policy record, its plain form, and the test whether it is legal."""
