"""Builds of CUDA extensions: the sources of their kernels, and what did not compile."""

from collections.abc import Iterator
from pathlib import PurePath

from inspector.base.model import Content, Failure, Origin
from inspector.recording import failures
from inspector.recording.contents import Blob
from inspector.recording.events import DeviceCode, ExtensionBuild


class ExtensionBuilds:
    """Collects the events of builds, and finds the reasons of those that failed.

    Attributes:
        sources: the contents of the builds' files by path.
    """

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self.sources: dict[str, Content] = {}
        self._failed_sources: dict[tuple[str, str], failures.FailedSource] = {}
        self._failed_builds: dict[str, ExtensionBuild] = {}  # before their compilers began
        self._without_code: list[DeviceCode] = []
        self._paths: set[str | None] = set()

    def take_build(self, event: ExtensionBuild) -> None:
        """Take in the event of a build; a later one of the same folder replaces its failure."""
        directory = event.directory or ""
        for path, digest in failures.source_blobs(event).items():
            content = self._blob(digest)
            if content is not None:
                self.sources[path] = content
        self._failed_builds.pop(directory, None)
        failed = list(failures.of_build(event, self._blob))
        for source in failed:
            self._failed_sources[source.path, str(source.blob)] = source
        explained = bool(failed) or any(
            path.startswith(f"{directory}/") for path, _ in self._failed_sources
        )
        if event.error is not None and not explained:
            self._failed_builds[directory] = event

    def has_code(self, event: DeviceCode) -> bool:
        """Whether a source was compiled; one that was not is kept for ``failed_sources``."""
        self._paths.add(event.source)
        if event.cubin is not None or event.ptx is not None:
            return True
        self._without_code.append(event)
        return False

    def failed_sources(self, problems: list[str]) -> Iterator[tuple[DeviceCode, Failure | None]]:
        """Sources without code, and why; call it when all successful compilations are known.

        Of a build that failed as a whole its kernels have the reason; ``problems`` get a sentence
        if it has none.
        """
        reported: set[str] = set()
        for event in self._without_code:
            key = event.source or "", str(event.source_blob)
            failed = self._failed_sources.pop(key, None)
            error = None if failed is None else failed.failure
            directory = event.directory or ""
            if error is None and directory in self._failed_builds:
                error = failures.of_whole_build(self._failed_builds[directory])
                reported.add(directory)
            yield event, error
        for source in self._failed_sources.values():
            is_cuda = source.path.endswith(".cu")
            event = DeviceCode(
                source=source.path,
                source_blob=source.blob,
                arch=source.target,
                flags=source.argv[1:],
                origin=None if is_cuda else Origin.CPP.value,
            )
            yield event, source.failure
        for directory, build in self._failed_builds.items():
            for path, digest in build.sources.items():
                if path.endswith(".cu") and path not in self._paths:
                    event = DeviceCode(source=path, source_blob=digest)
                    yield event, failures.of_whole_build(build)
                    reported.add(directory)
            if directory not in reported:
                name = PurePath(directory).name or str(build.name)
                complaint = failures.complaint(build)[:300]
                problems.append(f"the extension {name} did not build: {complaint}")
