"""Kernels of other makers: those that the driver was asked to launch and that no compilation is
recorded of, and those that another compiler was seen to make.

Each becomes a new kernel, with its maker: the library that requested the launch, or the compiler of
a kernel of that name.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePath

from msgspec.structs import replace

from inspector.base.errors import PtxviewError
from inspector.base.model import Failure, Origin, Stage, StageFile, Variant
from inspector.base.names import base_name
from inspector.parsers.cubin import architecture
from inspector.recording import failures
from inspector.recording.contents import Blob, cuda_span, digest_of, target_of, text_of
from inspector.recording.decoding import as_text
from inspector.recording.driver_launches import (
    DriverLaunches,
    KernelLaunches,
    KernelOfModule,
    digest_named,
)
from inspector.recording.events import CompilerProduct, Event
from inspector.recording.variants import VariantOfKernel, lines_of
from inspector.system import files

MAKERS = Path(__file__).parent.parent / "reference" / "makers.toml"
_LIBRARY = re.compile(r"\.so(?:\.|$)")


@cache
def makers() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Libraries by the names of their files, and what people call what launches from them."""
    rows = tomllib.loads(files.text(MAKERS))["maker"]
    return tuple((re.compile(row["library"]), str(row["maker"])) for row in rows)


def maker_of(libraries: Iterable[str]) -> str | None:
    """Who asked for a launch, by the libraries that it came through, innermost first."""
    for path in libraries:
        for pattern, maker in makers():
            if pattern.search(path):
                return maker
        name = PurePath(path).name
        if _LIBRARY.search(name):
            return name.partition(".")[0].removeprefix("lib")
    return None


class ExternKernels:
    """Collects what compilers were seen to make, and makes kernels of it and of launches."""

    EVENTS = (CompilerProduct,)
    """The events that it takes."""

    def __init__(self, blob: Blob, driver: DriverLaunches) -> None:
        self._blob = blob
        self._driver = driver
        self._products: list[CompilerProduct] = []
        self._refused: list[CompilerProduct] = []
        self._targets: dict[str, str | None] = {}

    def take(self, event: Event) -> None:
        if not isinstance(event, CompilerProduct):
            return
        if event.event == "made_failed":
            self._refused.append(event)
            return
        if event.cubin is not None:
            # A later event of a compiler's product adds its machine code.
            self._products = [p for p in self._products if _identity(p) != _identity(event)]
        self._products.append(event)

    def kernels(self, variants: Iterable[Variant]) -> Iterator[VariantOfKernel]:
        """A kernel for each that was launched, made or refused, and that is in no variant."""
        recorded: set[tuple[str | None, str]] = set()
        for variant in variants:
            machine_code = variant.stages.get(Stage.SASS)
            if machine_code is not None:
                recorded.add((digest_named(machine_code.content), variant.symbol))
        for key, launches in self._driver.kernels.items():
            if key not in recorded and self._driver.was_launched(launches):
                yield self._launched(launches)
        if not self._driver.began:
            for product in self._products:
                if self._has_code(product) and not self._was_refused(product):
                    yield self._unlaunched(product)
        for product in self._refused:
            yield self._failed(product)

    def has_code(self, compiler: str, name: str) -> bool:
        """Whether a compiler's code is there of a kernel that no driver was asked to launch."""
        if self._driver.began:
            return False
        return any(map(self._has_code, self._products_named(compiler, name)))

    def captured(self, compiler: str, name: str) -> bool:
        """Whether a kernel that a compiler was seen to make is here by its launches, or was never
        launched, since all launches were seen."""
        if self._driver.saw_all:
            return True
        products = list(self._products_named(compiler, name))
        if products and all(map(self._was_refused, products)):
            return True  # as one that failed
        return any(_is_of(compiler, name, None, symbol) for _, symbol in self._driver.kernels)

    def _products_named(self, compiler: str, name: str) -> Iterator[CompilerProduct]:
        for product in self._products:
            if str(product.compiler) == compiler and str(product.name) == name:
                yield product

    def _was_refused(self, product: CompilerProduct) -> bool:
        """Whether a kernel that has PTX was refused by the linker."""
        if product.symbol is None:
            return False
        return any(
            r.compiler == product.compiler and r.symbol == product.symbol for r in self._refused
        )

    def _has_code(self, product: CompilerProduct) -> bool:
        return any(self._blob(code) is not None for code in (product.ptx, product.cubin))

    # -- kernels by their compiler ----------------------------------------------------------------

    def _unlaunched(self, product: CompilerProduct) -> VariantOfKernel:
        """A kernel of which there is only its compiler's text."""
        stages = (Stage.TTIR, Stage.TTGIR, Stage.LLIR)
        missing = dict.fromkeys(stages, "no Triton compiled it")
        missing[Stage.SASS] = f"{product.compiler} is not emulated, and there was no GPU to load it"
        return self._of_compiler(product, missing, None)

    def _failed(self, product: CompilerProduct) -> VariantOfKernel:
        """A kernel that its compiler refused, with the stages before."""
        error = failures.of_compile(product, self._blob)
        tool = (error.tool if error is not None else None) or product.compiler
        reason = "it did not say why" if error is None else error.summary
        missing = dict.fromkeys((Stage.TTIR, Stage.TTGIR), f"{product.compiler} makes none")
        sentence = f"{tool} could not compile it: {reason}"
        missing |= dict.fromkeys((Stage.LLIR, Stage.PTX, Stage.SASS), sentence)
        return self._of_compiler(product, missing, error)

    def _of_compiler(
        self, product: CompilerProduct, missing: Mapping[Stage, str], error: Failure | None
    ) -> VariantOfKernel:
        """A kernel that its compiler alone names, known by its PTX if that was compiled, and else
        by the request."""
        compiler = str(product.compiler)
        symbol = product.symbol or str(product.name)
        stages = self._stages(product, {})
        code_file = stages.get(Stage.PTX) or stages.get(Stage.SASS)
        code = None if code_file is None else code_file.content
        if code is not None and error is None:
            digest = digest_of(code)
        else:
            signature = sorted(product.signature.items())
            request = repr((compiler, str(product.name), signature, product.source))
            digest = _sha256(request)
        target = self._target(stages)
        if target is None and Stage.PTX in stages:
            target = target_of(code, {})
        variant = Variant(
            id="",
            hash=digest,
            symbol=symbol,
            target=target,
            stages=stages,
            missing=_missing(missing, stages, product),
            maker=compiler,
            error=error,
        )
        variant = self._described(variant, product)
        return VariantOfKernel(("extern", symbol, compiler), Origin.EXTERN, symbol, variant)

    def _stages(
        self, product: CompilerProduct, launched: Mapping[Stage, StageFile]
    ) -> dict[Stage, StageFile]:
        """The stages of a compiler's product; ``launched`` are those of its machine code."""
        stages = dict(launched)
        source = self._blob(product.source)
        if source is not None:
            text_from = f"what {product.compiler} was given"
            stages[Stage.SOURCE] = StageFile(source, product.path, text_from)
        contents = {
            Stage.IR: product.ir,
            Stage.OUTPUT_CODE: product.output_code,
            Stage.TTIR: product.ttir,
            Stage.LLIR: product.llir,
            Stage.PTX: product.ptx,
            Stage.SASS: product.cubin,
        }
        for stage, digest in contents.items():
            content = self._blob(digest)
            if stage in stages or content is None:
                continue
            name = "cubin" if stage is Stage.SASS else stage.value
            author = "nvdisasm -c" if stage is Stage.SASS else str(product.compiler)
            text_from = as_text(product.authors.get(name)) or author
            stages[stage] = StageFile(content, as_text(product.paths.get(name)), text_from)
        return stages

    def _described(self, variant: Variant, product: CompilerProduct) -> Variant:
        """A variant with the kernel's lines in its source, its options and its parameters."""
        source = self._blob(product.source)
        span = None
        if source is not None:
            span = lines_of(product) or cuda_span(text_of(source), base_name(variant.symbol))
        code = variant.stages.get(Stage.OUTPUT_CODE)
        embedded = None
        if code is not None and code.origin_path is not None:
            embedded = code.origin_path, 1
        config = dict(product.config)
        if product.options is not None:
            config["flags"] = list(product.options)
        return replace(
            variant, span=span, config=config, signature=product.signature, embedded=embedded
        )

    # -- kernels by their launches ----------------------------------------------------------------

    def _launched(self, launches: KernelLaunches) -> VariantOfKernel:
        """A kernel that the driver was asked to launch."""
        product = self._product_of(launches)
        library = launches.libraries[0] if launches.libraries else None
        maker = maker_of(launches.libraries) if product is None else str(product.compiler)
        stages = self._machine_code(launches, library)
        missing = dict.fromkeys((Stage.TTIR, Stage.TTGIR, Stage.LLIR), "no Triton compiled it")
        missing[Stage.PTX] = "only its machine code passes the driver"
        missing[Stage.SASS] = "the module that it is in could not be kept"
        if product is not None:
            stages = self._stages(product, stages)
        # A hash of the kernel's own: a module has hundreds, and all that is known is of one.
        digest = _sha256(f"{launches.module}\0{launches.symbol}")
        self._driver.assign(digest, launches)
        variant = Variant(
            id="",
            hash=digest,
            symbol=launches.symbol,
            target=self._target(stages),
            stages=stages,
            missing=_missing(missing, stages, product),
            maker=maker,
            library=library,
        )
        if product is not None:
            variant = self._described(variant, product)
        key = ("extern", launches.symbol, maker or "")
        return VariantOfKernel(key, Origin.EXTERN, launches.symbol, variant)

    def _product_of(self, launches: KernelLaunches) -> CompilerProduct | None:
        """The compiler's product that was launched: the one with that machine code, else the last
        one of that name. Of several with different code it lacks its stages."""
        symbol = launches.symbol
        products = [
            product
            for product in reversed(self._products)
            if _is_of(str(product.compiler), str(product.name), product.symbol, symbol)
        ]
        if launches.module:
            for product in products:
                if product.cubin == launches.module:
                    return product
        if not products:
            return None
        modules = {product.ir for product in products}
        if len(modules) == 1:
            return products[0]
        compiler = products[0].compiler
        reason = f"{len(modules)} modules that {compiler} compiled have a kernel of this name"
        stages = ("source", "ir", "output_code", "ttir", "llir", "ptx")
        return CompilerProduct(
            compiler=compiler, name=products[0].name, lacks=dict.fromkeys(stages, reason)
        )

    def _machine_code(
        self, launches: KernelLaunches, library: str | None
    ) -> dict[Stage, StageFile]:
        """The machine code of a kernel: its own if it was taken out of its module."""
        extracted = self._blob(self._driver.extracted(launches))
        if extracted is not None:
            return {Stage.SASS: StageFile(extracted, library, "nvdisasm -c")}
        module = self._blob(launches.module)
        if module is None:
            return {}
        code = KernelOfModule(module, launches.symbol)
        return {Stage.SASS: StageFile(code, library, "nvdisasm -c")}

    def _target(self, stages: Mapping[Stage, StageFile]) -> str | None:
        machine_code = stages.get(Stage.SASS)
        if machine_code is None:
            return None
        module = machine_code.content
        if isinstance(module, KernelOfModule):
            module = module.module
        name = digest_named(module) or ""
        if name not in self._targets:  # a module may have hundreds of kernels, and 60 MB
            with suppress(PtxviewError):
                self._targets[name] = architecture(module.read())
        return self._targets.get(name)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _identity(product: CompilerProduct) -> tuple[object, str | None, str | None]:
    return product.compiler, product.name, product.symbol


def _missing(
    reasons: Mapping[Stage, str],
    stages: Mapping[Stage, StageFile],
    product: CompilerProduct | None,
) -> dict[Stage, str]:
    """The reasons for the stages that a kernel lacks, the compiler's own first."""
    all_reasons = {**reasons, Stage.SOURCE: "what it was compiled from was not seen"}
    if product is not None:
        for stage in Stage:
            if stage in product.lacks:
                all_reasons[stage] = str(product.lacks[stage])
    return {stage: why for stage, why in all_reasons.items() if stage not in stages}


def _is_of(compiler: str, name: str, product_symbol: str | None, symbol: str) -> bool:
    """Whether what a compiler named is this symbol: itself, its base name, or the jiterator's."""
    if symbol in (name, product_symbol) or base_name(symbol) == name:
        return True
    if not compiler.endswith("jiterator"):
        return False
    return re.fullmatch(rf"{re.escape(name)}_(\w+_)?kernel", symbol) is not None
