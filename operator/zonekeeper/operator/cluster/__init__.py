"""What a resource asks for, the objects that it becomes, and what is there."""
