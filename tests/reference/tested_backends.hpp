// The backends for tests of whole models: the parameter of contract and golden tests.
#pragma once

#include "kernels/context.hpp"
#include "kernels/model/compute_backend.hpp"
#include "kernels/model/numerics.hpp"
#include "kernels/model/quantization.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::test {

/// "cpu", and "cuda" if this build has it and this machine a device; linked with the emulation, only "cuda".
std::vector<std::string> tested_backends();

/// "cuda+cpu" and "cpu+cuda", attention on the first and experts on the second, if this build has both and
/// this machine a device, real or emulated.
std::vector<std::string> mixed_backends();

/// Whether tests should be few and small: emulated kernels take a thousand times as long.
bool is_slow(const std::string& name);

/// Whether a backend supports `dtype`: GPUs compute only in bfloat16.
bool computes(const std::string& name, kernels::dtype type);

/// A model folder on the backend of that name, or on two ("cuda+cpu").
/// @param ctx  borrowed: where "cpu" computes
/// @throws model_error
std::unique_ptr<model::compute_backend> open_backend(const std::string& name, kernels::context& ctx,
                                                     const std::filesystem::path& folder,
                                                     model::dtype_choice dtype,
                                                     const model::quantization& quant = {});

} // namespace troupe::test
