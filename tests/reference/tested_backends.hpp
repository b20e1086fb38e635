// Backends that tests of whole models run on: the parameter of contract and golden tests.
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

/// "cpu", and "cuda" where this build has it and this machine a device; linked with the emulation, "cuda"
/// alone.
std::vector<std::string> tested_backends();

/// "cuda+cpu" and "cpu+cuda", attention on the one and experts on the other, where this build has both and
/// this machine a device, real or emulated.
std::vector<std::string> mixed_backends();

/// Whether tests should be few and small: kernels that are emulated take a thousand times as long.
bool is_slow(const std::string& name);

/// Whether a backend computes in what `dtype` asks for: GPUs do in bfloat16 only.
bool computes(const std::string& name, kernels::dtype type);

/// A model folder on the backend of that name, or on two ("cuda+cpu").
/// @param ctx  borrowed: where "cpu" computes
/// @errors  model_error
std::unique_ptr<model::compute_backend> open_backend(const std::string& name, kernels::context& ctx,
                                                     const std::filesystem::path& folder,
                                                     model::dtype_choice dtype,
                                                     const model::quantization& quant = {});

} // namespace troupe::test
