"""The runbooks: a page for each predicate and alert. They are data of this package."""
