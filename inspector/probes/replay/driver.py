"""The CUDA driver and NVML by ctypes: loads a recorded cubin, launches it, reads the clocks.

Structures and constants are cuda.h's and nvml.h's. Everything happens in the context that torch
has made current.
"""

from __future__ import annotations

import ctypes
from typing import Any

FUNC_SHARED_SIZE, FUNC_MAX_DYNAMIC_SHARED = 1, 8
DEVICE_SHARED_OPTIN = 97
PREFER_SHARED = 1
ATTRIBUTE_COOPERATIVE, ATTRIBUTE_CLUSTER, ATTRIBUTE_CLUSTER_POLICY = 2, 4, 5
POLICY_SPREAD = 1
# Bytes of shared memory a block may have without opting in, on every architecture so far.
UNASKED_SHARED = 49152
CLOCK_SM = 1
# nvmlClocksEventReason…: what slows a device down, apart from its being idle or told to.
THROTTLES = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


class DriverError(RuntimeError):
    """A call of the driver failed; the message has the driver's own words."""


class Driver:
    """The driver functions that a launch needs. Raises ``DriverError``, ``OSError`` without one."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver. Raises ``DriverError``."""
        status = getattr(self.lib, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorString(status, ctypes.byref(text))
            message = (text.value or b"unknown error").decode("utf-8", "replace")
            raise DriverError(f"{name}: {message} ({status})")

    def load(self, cubin: bytes, symbol: str) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """The module of a cubin, and the function of that name in it."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(cubin))
        self.call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        return module, function

    def allow_shared(self, function: ctypes.c_void_p, dynamic: int, device: int) -> None:
        """Allow ``dynamic`` bytes of dynamic shared memory a block, as Triton's loader does."""
        if dynamic <= UNASKED_SHARED:
            return
        static, most = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(most), DEVICE_SHARED_OPTIN, device)
        self.call("cuFuncSetCacheConfig", function, PREFER_SHARED)
        self.call("cuFuncGetAttribute", ctypes.byref(static), FUNC_SHARED_SIZE, function)
        size = most.value - static.value
        self.call("cuFuncSetAttribute", function, FUNC_MAX_DYNAMIC_SHARED, size)

    def bus_id(self, device: int) -> bytes:
        """The device's PCI bus id, by which NVML identifies it."""
        text = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", text, 32, device)
        return text.value


class Kernel:
    """A launch of a loaded function with its arguments, to be made again and again."""

    def __init__(
        self, driver: Driver, function: ctypes.c_void_p, launch: dict[str, Any], values: list[bytes]
    ) -> None:
        self._driver, self._function = driver, function
        self._held = [ctypes.create_string_buffer(v, len(v)) for v in values]
        pointers = [ctypes.cast(b, ctypes.c_void_p) for b in self._held]
        self._parameters = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
        cluster = int(launch.get("cluster") or 1)
        x, y, z = launch["grid"]
        rows: list[tuple[int, tuple[int, ...]]] = []
        if launch.get("cooperative"):
            rows.append((ATTRIBUTE_COOPERATIVE, (1,)))
        if cluster > 1:
            rows.append((ATTRIBUTE_CLUSTER, (cluster, 1, 1)))
            rows.append((ATTRIBUTE_CLUSTER_POLICY, (POLICY_SPREAD,)))
        self._attributes = (_Attribute * max(len(rows), 1))()
        for index, (attribute, value) in enumerate(rows):
            self._attributes[index].id = attribute
            for n, word in enumerate(value):
                self._attributes[index].value[n] = word
        self._config = _Config(
            grid=(x * cluster, y, z),
            block=tuple(launch["block"]),
            shared=int(launch.get("shared") or 0),
            attributes=ctypes.cast(self._attributes, ctypes.c_void_p) if rows else None,
            count=len(rows),
        )

    def launch(self, stream: int) -> None:
        """Launch on a stream. Raises ``DriverError``."""
        config = self._config
        if config.count:
            config.stream = stream or None
            self._driver.call(
                "cuLaunchKernelEx", ctypes.byref(config), self._function, self._parameters, None
            )
            return
        self._driver.call(
            "cuLaunchKernel",
            self._function,
            *config.grid,
            *config.block,
            config.shared,
            ctypes.c_void_p(stream or None),
            self._parameters,
            None,
        )


class Clocks:
    """Reads the clocks of a device; every value is None without NVML."""

    def __init__(self, bus_id: bytes) -> None:
        self._lib: Any = None
        self._most: int | None = None  # it never changes
        self._device = ctypes.c_void_p()
        try:
            lib = ctypes.CDLL("libnvidia-ml.so.1")
            if lib.nvmlInit_v2() == 0 and not lib.nvmlDeviceGetHandleByPciBusId_v2(
                ctypes.c_char_p(bus_id), ctypes.byref(self._device)
            ):
                self._lib = lib
        except (OSError, AttributeError):
            self._lib = None

    def _ask(self, name: str, kind: Any, *arguments: Any) -> int | None:
        value = kind()
        try:
            status = getattr(self._lib, name)(self._device, *arguments, ctypes.byref(value))
        except AttributeError:
            return None
        return int(value.value) if status == 0 else None

    def driver(self) -> str | None:
        """The driver's version; None if it is not known."""
        if self._lib is None:
            return None
        text = ctypes.create_string_buffer(80)
        status = self._lib.nvmlSystemGetDriverVersion(text, len(text))
        return None if status else text.value.decode("utf-8", "replace")

    def look(self) -> dict[str, Any]:
        """SM clock and its maximum in MHz, °C, and what slows the device; None if not known."""
        if self._lib is None:
            return {"sm_mhz": None, "most_mhz": None, "celsius": None, "slowed_by": None}
        if self._most is None:
            self._most = self._ask("nvmlDeviceGetMaxClockInfo", ctypes.c_uint, CLOCK_SM)
        reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
        return {
            "sm_mhz": self._ask("nvmlDeviceGetClockInfo", ctypes.c_uint, CLOCK_SM),
            "most_mhz": self._most,
            "celsius": self._ask("nvmlDeviceGetTemperature", ctypes.c_uint, 0),
            "slowed_by": None
            if reasons is None
            else [text for bit, text in THROTTLES.items() if reasons & bit],
        }
