// Plans as text that people can read and change: a line for each choice.
//
//     troupe kernel plan 1
//     set amx
//     coded_weights yes
//     attention set=amx row_kernel_rows=16 …
//     product bf16 rows=16 set=amx kernel=tiles_streamed tile_panels=4 …
//     product bf16 rows=any set=amx kernel=tiles …
//     end
//
// A product's lines are looked at in their order; what a line does not say is as `default_regime` has it, and
// a kind without lines as the default plan of `set` has it. '#' begins a comment.
#pragma once

#include <string>
#include <string_view>

#include "kernels/cpu/gemm/plan.hpp"

namespace troupe::kernels {

std::string text_of(const kernel_plan& plan);

/// "amx tiles_streamed", and the sizes that are not those of `default_regime`.
std::string text_of(const product_regime& regime, product_kind kind);

/// @errors kernel_error with the line for text that is no plan, is cut short, or names what this machine does
///         not have
kernel_plan plan_from_text(std::string_view text);

} // namespace troupe::kernels
