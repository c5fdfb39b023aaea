// The device guard of DeviceType::CUDA: current device, streams and events that have nothing to wait for.
#pragma once
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <limits>

#include "state.h"

namespace ptxview {

// Newer versions of torch declare more of these as virtual; `override` stands only where all do.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    c10::Device old = cuda(current_device);
    setDevice(device);
    return old;
  }
  c10::Device getDevice() const override { return cuda(current_device); }
  void setDevice(c10::Device device) const override {
    if (device.index() < 0) return;
    TORCH_CHECK(device.index() < device_count, "CUDA error: invalid device ordinal");
    current_device = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < device_count) current_device = device.index();
  }
  c10::Stream stream(c10::Device device, c10::StreamId id) const {
    return c10::Stream(c10::Stream::UNSAFE, cuda(device.index()), id);
  }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return stream(device, current_stream[cuda(device.index()).index()]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool = false) const override {
    return stream(device, next_stream++);
  }
  c10::Stream getNewStream(c10::Device device, int = 0) const override {
    return stream(device, next_stream++);
  }
  c10::Stream exchangeStream(c10::Stream to) const noexcept override {
    c10::Stream old = getStream(to.device());
    current_stream[to.device_index()] = to.id();
    return old;
  }
  void* getStreamNativeHandle(const c10::Stream s) const { return reinterpret_cast<void*>(s.id()); }
  c10::DeviceIndex deviceCount() const noexcept override { return c10::DeviceIndex(device_count); }

  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const {}
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
    static char recorded;
    *event = &recorded;
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const {}
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  // Nothing was measured: no GPU ran anything.
  double elapsedTime(void*, void*, const c10::DeviceIndex) const {
    return std::numeric_limits<double>::quiet_NaN();
  }
};

// The registry takes the last registration, so on a CUDA build this one wins too.
inline c10::impl::DeviceGuardImplRegistrar guard(c10::DeviceType::CUDA, new Guard());

}  // namespace ptxview
