"""ptxas as a judge: what a kernel stores follows from its text, and the assembler works it out.

Constants come into registers by a few instructions of SASS; a store of anything else is not
judged.
"""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import triton

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
_FUNCTION = re.compile(r"\.section\s+\.text\.(\w+)")
_LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
_STORE = re.compile(
    r"STG\.E\.64 desc\[UR\d+\]\[R\d+\.64(?:\+(0x[0-9a-f]+|-0x[0-9a-f]+))?\], (R\w+)"
)


def assembled(text: str, folder: Path, target: str = "sm_90a") -> str:
    """The SASS of a PTX text, as nvdisasm prints it."""
    source, cubin = folder / "judged.ptx", folder / "judged.cubin"
    source.write_text(text, "utf-8")
    ptxas = TOOLS / "ptxas-blackwell"
    subprocess.run(
        [ptxas, f"-arch={target}", "-o", cubin, source],
        check=True,
        capture_output=True,
        timeout=600,
    )
    shown = subprocess.run(
        [TOOLS / "nvdisasm", "-c", cubin], check=True, capture_output=True, text=True, timeout=600
    )
    return shown.stdout


def half(text: str) -> int:
    """The bits of a half precision number as nvdisasm writes it. ValueError of a NaN."""
    value = {"+INF": "inf", "-INF": "-inf"}.get(text, text)
    return int(struct.unpack("<H", struct.pack("<e", float(value)))[0])


class _Registers:
    """The constants that are known to be in registers."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {"RZ": 0, "URZ": 0}

    def read(self, operand: str) -> int | None:
        if re.fullmatch(r"-?0x[0-9a-f]+|-?\d+", operand):
            return int(operand, 0) & 0xFFFFFFFF
        return self.values.get(operand)

    def write(self, register: str, value: int | None) -> None:
        if register in ("RZ", "URZ"):
            return
        if value is None:
            self.values.pop(register, None)
        else:
            self.values[register] = value & 0xFFFFFFFF

    def run(self, opcode: str, operands: list[str]) -> None:
        """A SASS instruction: facts of its result, or none."""
        base = opcode.split(".")[0]
        target = operands[0] if operands else ""
        if not re.fullmatch(r"U?R\d+", target):
            return
        if base in ("MOV", "UMOV") and len(operands) >= 2:
            self.write(target, self.read(operands[1]))
        elif opcode.startswith("IMAD.MOV") and operands[1:3] == ["RZ", "RZ"]:
            self.write(target, self.read(operands[3]))
        elif base == "HFMA2" and "BF16" not in opcode and operands[1:3] == ["-RZ", "RZ"]:
            try:
                self.write(target, half(operands[3]) << 16 | half(operands[4]))
            except ValueError:
                self.write(target, None)
        elif base == "CS2R" and operands[1] == "SRZ":
            self.write(target, 0)
            if opcode != "CS2R.32":
                self.write(f"R{int(target[1:]) + 1}", 0)
        else:
            self.write(target, None)
            if "64" in opcode or "WIDE" in opcode or base[0] == "D":
                self.write(
                    f"{target.rstrip('0123456789')}{int(re.sub(r'[A-Z]', '', target)) + 1}", None
                )


def folded(sass: str) -> dict[str, dict[int, int]]:
    """For each kernel, the constants that it stores, by the offset that they are stored at."""
    out: dict[str, dict[int, int]] = {}
    parts = _FUNCTION.split(sass)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        registers, stored = _Registers(), out.setdefault(name, {})
        for line in _LINE.findall(body):
            guarded = line.startswith("@")
            text = re.sub(r"^@!?U?P\w+ ", "", line)
            if store := _STORE.match(text):
                low = registers.read(store[2])
                number = store[2][1:]
                high = registers.read(f"R{int(number) + 1}") if number.isdigit() else 0
                if low is not None and high is not None and not guarded:
                    stored[int(store[1] or "0", 0)] = high << 32 | low
                continue
            opcode, _, rest = text.partition(" ")
            operands = [o.strip().removesuffix(".reuse") for o in rest.split(",")]
            if guarded and operands:
                registers.write(operands[0], None)
            else:
                registers.run(opcode, operands)
    return out
