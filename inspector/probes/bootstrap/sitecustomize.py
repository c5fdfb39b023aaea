"""Found first on PYTHONPATH by a recorded interpreter: wakes the probes, then the user's own.

A failure here is silent, since a program must not notice that it is recorded, unless it costs the
program its emulated device.
"""


def _chain(own_folder: str) -> None:
    """Run the ``sitecustomize`` that would have been found without this one."""
    import sys
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if p != own_folder])
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    # site swallows ImportError of the user's own alone, so that its other errors stay his to see.
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _wake(own_folder: str) -> None:
    import os
    import sys

    # importlib.util's own, without what that module imports besides.
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import spec_from_file_location

    if not os.environ.get("PTXVIEW_RECORDING") or "ptxview_probes" in sys.modules:
        return
    folder = os.path.dirname(own_folder)
    spec = spec_from_file_location(
        "ptxview_probes", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["ptxview_probes"] = module
    spec.loader.exec_module(module)
    from ptxview_probes import start, writer

    writer.last()
    start.start()


def _no_device(reason: str) -> None:
    """Say that the probes did not start, in the recording too if its writer can be imported."""
    import sys

    try:
        from ptxview_probes import hooks, writer

        writer.watching()
        hooks.no_device(reason)
    except Exception:
        text = f"the emulated CUDA device could not be set up ({reason}): torch finds no GPU"
        if sys.stderr is not None:
            print(f"ptxview: {text}", file=sys.stderr, flush=True)


def _main() -> None:
    import os

    own_folder = os.path.dirname(os.path.abspath(__file__))
    try:
        _wake(own_folder)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if os.environ.get("PTXVIEW_TARGET"):
            _no_device(f"{type(error).__name__}: {error}")
    _chain(own_folder)


_main()
