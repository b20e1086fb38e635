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

/// "cpu", and of the others those that this build has and this machine has a device for.
std::vector<std::string> tested_backends();

/// A model folder on the backend of that name.
/// @param ctx  borrowed: where "cpu" computes
/// @errors  model_error
std::unique_ptr<model::compute_backend> open_backend(const std::string& name, kernels::context& ctx,
                                                     const std::filesystem::path& folder,
                                                     model::dtype_choice dtype,
                                                     const model::quantization& quant = {});

} // namespace troupe::test
