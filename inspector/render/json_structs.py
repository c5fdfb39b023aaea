"""The classes that commands print as JSON, by the names of their tables in the JSON reference."""

from collections.abc import Mapping

from inspector.analysis.accesses import Access, Product
from inspector.analysis.card import Estimate
from inspector.analysis.function_facts import Consumer, Wait
from inspector.analysis.line_annotations import Rolled, Samples
from inspector.analysis.occupancy import OccupancyStep
from inspector.analysis.tuner_times import RoundTimes
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
from inspector.render.card import (
    CardRow,
    DeviceRow,
    EstimatesRow,
    OccupancyRow,
    StageContentRow,
)
from inspector.render.check import VerdictRow
from inspector.render.compile_rows import (
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
from inspector.render.costs import CostRow, WindowRow
from inspector.render.graph_rows import (
    BufferRow,
    GraphCallRow,
    GraphRow,
    GraphViewRow,
    NodeRow,
    NotFusedRow,
    ReuseRow,
    SourceLineRow,
)
from inspector.render.json_rows import (
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
from inspector.render.json_schema import JsonReference, StructTable, Tables
from inspector.render.ncu_rows import NcuLaunchRow, NcuRow, NcuRuleRow, NcuVariantRow
from inspector.render.pictures.picture import (
    Axis,
    GridCell,
    GridPicture,
    PictureRow,
    PlotLine,
    PlotPicture,
    RowPicture,
)
from inspector.render.ranks import RankDifferenceRow, RankRow, RanksRow
from inspector.render.recording_rows import RecordingRow, UncapturedRow
from inspector.render.timings import LaunchTimeRow, TimingRow
from inspector.render.tunings import CandidateRow, RoundRow
from inspector.render.variant_figures import VariantFigures

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
    "RowPicture": StructTable(RowPicture),
    "PlotPicture": StructTable(PlotPicture),
    "GridPicture": StructTable(GridPicture),
    "PictureCell": StructTable(GridCell),
    "PictureAxis": StructTable(Axis),
    "PictureRow": StructTable(PictureRow),
    "PictureLine": StructTable(PlotLine),
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
