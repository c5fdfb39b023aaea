"""``python -m inspector`` is ``ptxview``."""

from inspector.cli import main

raise SystemExit(main())
