"""Is a zone down, and may its losses be repaired? The zone watch judges, the gate permits."""
