"""The classes that commands print as JSON, by the names of their tables in the JSON reference."""

from collections.abc import Mapping

from inspector.analyse.accesses import Access, Product
from inspector.analyse.card import Estimate
from inspector.analyse.function_facts import Consumer, Wait
from inspector.analyse.line_annotations import Rolled, Samples
from inspector.analyse.occupancy import OccupancyStep
from inspector.analyse.tuner_times import RoundTimes
from inspector.base.model import (
    Argument,
    CacheLookup,
    ChoiceUse,
    Compilation,
    CompilePhase,
    CompilerMessage,
    MadeFrom,
    Note,
    Resources,
    Stage,
    TriedFusion,
    Unwatched,
)
from inspector.base.stage import Location
from inspector.diff.matching import Hunk
from inspector.diff.summary import AccessChange, FigureChange
from inspector.measure.profile.trace import (
    Chain,
    Compiling,
    GpuWork,
    Operator,
    Overhead,
    Piece,
    Shape,
    Window,
)
from inspector.measure.time.results import KernelTime, Timing
from inspector.report.card import (
    CardRow,
    DeviceRow,
    EstimatesRow,
    OccupancyRow,
    StageContentRow,
)
from inspector.report.check import VerdictRow
from inspector.report.compile_rows import (
    BreakRow,
    CompileGuardsRow,
    CompilesRow,
    FailedRow,
    FrameCompileRow,
    FrameRow,
    GuardFailureRow,
    GuardRow,
    KernelCompileRow,
    ShapeRow,
    StepRow,
)
from inspector.report.costs import CostRow, WindowRow
from inspector.report.graph_rows import (
    BufferRow,
    GraphCallRow,
    GraphRow,
    GraphViewRow,
    NodeRow,
    NotFusedRow,
    ReuseRow,
    SourceLineRow,
)
from inspector.report.json_rows import (
    BlocksRow,
    CallRow,
    ConfigurationRow,
    ControlRow,
    FailureRow,
    FunctionRow,
    GpuTimeRow,
    KernelRow,
    LineRow,
    NoteRow,
    TuningRow,
    VariantRow,
)
from inspector.report.json_schema import JsonReference, StructTable, Tables
from inspector.report.ncu_rows import NcuLaunchRow, NcuRow, NcuRuleRow, NcuVariantRow
from inspector.report.ranks import RankDifferenceRow, RankRow, RanksRow
from inspector.report.recording_rows import RecordingRow, UncapturedRow
from inspector.report.timings import LaunchTimeRow, TimingRow
from inspector.report.tunings import CandidateRow, RoundRow
from inspector.report.variant_figures import VariantFigures

STRUCTS: Mapping[str, StructTable] = {
    "Stage": StructTable(Stage),
    "Location": StructTable(Location),
    "Resources": StructTable(Resources),
    "Compilation": StructTable(Compilation),
    "Message": StructTable(CompilerMessage),
    "VariantsRound": StructTable(RoundTimes),
    "Change": StructTable(FigureChange),
    "VariantsHunk": StructTable(Hunk, ("op", "a", "b")),
    "VariantsAccesse": StructTable(AccessChange),
    "VariantsHintsGained": StructTable(Note, ("rule", "severity", "text")),
    "ListRecordingUnwatched": StructTable(Unwatched),
    "KernelMadeFrom": StructTable(MadeFrom),
    "Argument": StructTable(Argument),
    "Samples": StructTable(Samples),
    "LaunchTime": StructTable(LaunchTimeRow),
    "Timing": StructTable(TimingRow),
    "TuningUse": StructTable(ChoiceUse),
    "TuningConfiguration": StructTable(ConfigurationRow),
    "Compiles": StructTable(CompilesRow),
    "CompilesFailed": StructTable(FailedRow),
    "CompilesKernel": StructTable(KernelCompileRow),
    "CompilesKernelStep": StructTable(StepRow),
    "Break": StructTable(BreakRow),
    "FrameCompile": StructTable(FrameCompileRow),
    "GuardsAloneGuard": StructTable(CompileGuardsRow),
    "FrameCompilePhase": StructTable(CompilePhase),
    "UserFrame": StructTable(FrameRow),
    "FrameCompileFailure": StructTable(GuardFailureRow),
    "FrameCompileCache": StructTable(CacheLookup),
    "FrameCompileShape": StructTable(ShapeRow),
    "GuardsAloneGuardGuard": StructTable(GuardRow),
    "Window": StructTable(Window, without=("pid",)),
    "ProfileOperator": StructTable(Operator),
    "ProfileKernel": StructTable(GpuWork),
    "ProfileKernelShape": StructTable(Shape),
    "ProfileChain": StructTable(Chain),
    "ProfileOverhead": StructTable(Overhead),
    "ProfileCompiling": StructTable(Compiling),
    "ProfilePiece": StructTable(Piece),
    "ListRecording": StructTable(RecordingRow),
    "ListRecordingUncaptured": StructTable(UncapturedRow),
    "ListGraph": StructTable(GraphRow),
    "GraphCall": StructTable(GraphCallRow),
    "GraphCallNode": StructTable(NodeRow),
    "GraphCallReuse": StructTable(ReuseRow),
    "UserLine": StructTable(SourceLineRow),
    "Graph": StructTable(GraphViewRow),
    "GraphNotFused": StructTable(NotFusedRow),
    "GraphBuffer": StructTable(BufferRow),
    "Kernel": StructTable(KernelRow),
    "Variant": StructTable(VariantRow),
    "VariantCall": StructTable(CallRow),
    "ListCall": StructTable(CallRow),
    "GpuTime": StructTable(GpuTimeRow),
    "Failure": StructTable(FailureRow),
    "Tuning": StructTable(TuningRow),
    "Row": StructTable(VariantFigures),
    "Figures": StructTable(VariantFigures),
    "Cost": StructTable(CostRow),
    "GpuWindow": StructTable(WindowRow),
    "TuningRound": StructTable(RoundRow),
    "TuningCandidate": StructTable(CandidateRow),
    "NcuVariant": StructTable(NcuVariantRow),
    "NcuLaunch": StructTable(NcuLaunchRow),
    "NcuLaunchRule": StructTable(NcuRuleRow),
    "ListNcu": StructTable(NcuRow),
    "ListRanks": StructTable(RanksRow),
    "ListRanksRank": StructTable(RankRow),
    "ListRanksDifference": StructTable(RankDifferenceRow),
    "CheckCheck": StructTable(VerdictRow),
    "Function": StructTable(FunctionRow),
    "Line": StructTable(LineRow),
    "LineControl": StructTable(ControlRow),
    "Note": StructTable(NoteRow),
    "NoteBlocks": StructTable(BlocksRow),
    "Card": StructTable(CardRow),
    "CardDevice": StructTable(DeviceRow),
    "Made": StructTable(StageContentRow),
    "CardEstimates": StructTable(EstimatesRow),
    "Occupancy": StructTable(OccupancyRow),
    "OccupancyNextStep": StructTable(OccupancyStep),
    "MadeAccesse": StructTable(Access),
    "MadeProduct": StructTable(Product),
    "CardEstimatesTensorBytes": StructTable(Estimate),
    "LineRolledUp": StructTable(Rolled),
    "LineWaitsFor": StructTable(Wait),
    "LineConsumer": StructTable(Consumer),
    "GraphTried": StructTable(TriedFusion),
    "TimeRow": StructTable(Timing),
    "TimeRowKernel": StructTable(KernelTime),
}


def json_reference(tables: Tables) -> JsonReference:
    """The objects of JSON; ``tables`` are those of ``json.toml``."""
    return JsonReference(tables, STRUCTS)
