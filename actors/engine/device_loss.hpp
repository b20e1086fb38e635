// What a device's errors mean: it computes nothing any more in this process, or has no memory left.
#pragma once

#include <exception>
#include <functional>

#include "kernels/error.hpp"

namespace troupe {

/// Gets the error that tells of the loss, on the thread that computes or loads; once for each error. May be
/// null.
using device_loss_report = std::function<void(const std::exception& error)>;

/// Whether a device has no memory for what was tried.
inline bool is_out_of_memory(const std::exception& error) {
  const auto* of_kernels = dynamic_cast<const kernels::kernel_error*>(&error);
  return of_kernels != nullptr && of_kernels->is_out_of_memory();
}

/// Tells of an error if it means that the device is lost. Others, such as memory that has run out, concern
/// one step alone.
inline void report_device_loss(const std::exception& error, const device_loss_report& report) {
  const auto* of_kernels = dynamic_cast<const kernels::kernel_error*>(&error);
  if (report && of_kernels != nullptr && of_kernels->is_device_lost())
    report(error);
}

} // namespace troupe
