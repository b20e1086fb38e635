// Classifies errors of a device: it is lost for this process, or it has no memory left.
#pragma once

#include <exception>
#include <functional>

#include "kernels/error.hpp"

namespace troupe {

/// Called with the error that means the loss, on the thread that computes or loads; once for each error. May
/// be null.
using device_loss_report = std::function<void(const std::exception& error)>;

/// Whether the device had too little memory for the operation.
inline bool is_out_of_memory(const std::exception& error) {
  const auto* of_kernels = dynamic_cast<const kernels::kernel_error*>(&error);
  return of_kernels != nullptr && of_kernels->is_out_of_memory();
}

/// Reports an error if it means that the device is lost. Other errors, such as lack of memory, concern a
/// single step.
inline void report_device_loss(const std::exception& error, const device_loss_report& report) {
  const auto* of_kernels = dynamic_cast<const kernels::kernel_error*>(&error);
  if (report && of_kernels != nullptr && of_kernels->is_device_lost())
    report(error);
}

} // namespace troupe
