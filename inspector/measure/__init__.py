"""Times, profiles and ncu's reports: what was measured, and how it is tied to the kernels."""
