"""Every version of torch and Triton that installs here, each in a new environment."""
