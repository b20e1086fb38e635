// All kernels of one instruction set. Compiled once per set, with that set's flags (CMakeLists.txt) and one
// of TROUPE_ISA_AVX2 or TROUPE_ISA_AVX512 defined, or neither for the portable reference.
#include "kernels/cpu/attention/rows_fma.hpp"
#include "kernels/cpu/gemm/coded_decode.hpp"
#include "kernels/cpu/gemm/fma.hpp"
#include "kernels/cpu/gemm/int8/rows.hpp"
#include "kernels/cpu/gemm/quantized_fma.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#if defined(TROUPE_ISA_AVX512)
#  include "kernels/cpu/gemm/int8/streams_vnni.hpp"
#elif defined(TROUPE_ISA_AVX2)
#  include "kernels/cpu/gemm/fma_avx2.hpp"
#  include "kernels/cpu/gemm/int8/maddubs_avx2.hpp"
#  include "kernels/cpu/gemm/runs_avx2.hpp"
#else
#  include "kernels/cpu/gemm/int8/generic.hpp"
#endif
#include "kernels/cpu/gemm/quantize_search.hpp"
#include "kernels/cpu/rows/row_kernels.hpp"

namespace troupe::kernels::cpu {

namespace TROUPE_ISA_NAMESPACE {

static constexpr kernel_table make_table(isa set) {
  kernel_table table;
  table.set = set;
  table.pack_row_bf16 = pack_row_bf16;
  table.pack_row_f32 = pack_row_f32;
#if defined(TROUPE_ISA_AVX2)
  table.bf16_direct = bf16_direct_avx2;
  table.bf16_runs = bf16_runs_avx2;
  table.bf16_run_rows = bf16_run_rows;
  table.bf16_widened = bf16_widened_avx2;
  table.bf16_expanded = bf16_expanded_avx2;
#else
  table.bf16_direct = bf16_direct;
  table.bf16_expanded = bf16_expanded;
#endif
  table.expand_bf16 = expand_bf16;
  table.decode_bf16 = decode_bf16;
  table.f32_panel = f32_panel;
  table.quant.expand = expand_panel;
  table.quant.pairs = pair_panel;
  table.quant.direct = direct_panel;
  table.quant.scale = scale_panel;
  table.quant.quantize_row = quantize_row;
#if defined(TROUPE_ISA_AVX512)
  table.quant.integer = integer_panels;
  table.quant.integer_streams = integer_panels_vnni<weight_fetcher>;
  table.quant.integer_unpacked = integer_unpacked_vnni;
#elif defined(TROUPE_ISA_AVX2)
  table.quant.integer = integer_panels_avx2;
  table.quant.integer_runs = integer_runs_avx2;
  table.quant.int8_run_rows = int8_run_rows;
  table.quant.int4_run_rows = int4_run_rows;
#else
  table.quant.integer = integer_panels;
#endif
  table.quant.int4_error = int4_error;
  table.quant.int4_scale = int4_scale;
  table.finish_rows = finish_rows;
  table.activate_rows = activate_rows;
  table.activate_row = activate_row;
  table.rms_norm_row = rms_norm_row;
  table.layer_norm_row = layer_norm_row;
  table.scale_row = scale_row;
  table.rope_half = rope_half;
  table.rope_interleaved = rope_interleaved;
  table.softmax_row = softmax_row;
  table.sigmoid_row = sigmoid_row;
  table.combine_row = combine_row;
  table.dot = dot;
  table.add_scaled_row = add_scaled_row;
  table.max_row = max_row;
  table.exp_sum = exp_sum;
  table.attention = attention;
  return table;
}

} // namespace TROUPE_ISA_NAMESPACE

#if defined(TROUPE_ISA_AVX512)
constinit const kernel_table avx512_table = TROUPE_ISA_NAMESPACE::make_table(isa::avx512);
#elif defined(TROUPE_ISA_AVX2)
constinit const kernel_table avx2_table = TROUPE_ISA_NAMESPACE::make_table(isa::avx2);
#else
constinit const kernel_table portable_table = TROUPE_ISA_NAMESPACE::make_table(isa::portable);
#endif

} // namespace troupe::kernels::cpu
