// Plans as text for people to read and edit: a line for each choice.
//
//    troupe kernel plan 1
//    set amx
//    coded_weights yes
//    attention set=amx row_kernel_rows=16 …
//    product bf16 rows=16 set=amx kernel=tiles_streamed tile_panels=4 …
//    product bf16 rows=any set=amx kernel=tiles …
//    end
//
// The first matching line of a product counts. Missing words have the values of `default_regime`, and a kind
// without lines has the default plan of `set`. '#' begins a comment.
#pragma once

#include <string>
#include <string_view>

#include "kernels/cpu/gemm/plan.hpp"

namespace troupe::kernels {

std::string text_of(const kernel_plan& plan);

/// "amx tiles_streamed", and the sizes that differ from `default_regime`.
std::string text_of(const product_regime& regime, product_kind kind);

/// @throws kernel_error with the line, if the text is no plan, is incomplete, or names what this machine
/// lacks
kernel_plan plan_from_text(std::string_view text);

} // namespace troupe::kernels
