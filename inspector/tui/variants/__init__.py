"""The table of a kernel's variants."""
