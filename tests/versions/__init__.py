"""Every version of torch and Triton that installs here, each in an environment of its own."""
