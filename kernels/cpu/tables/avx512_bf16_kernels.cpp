// Kernels of AVX-512 with dot products of BF16: AVX-512's, with other products of BF16 weights. Compiled with
// the flags of both (CMakeLists.txt).
#if defined(__GNUC__)
#  pragma GCC diagnostic ignored "-Wunused-function" // only some of the headers' kernels are used here
#endif

#define TROUPE_NATIVE_BF16

#include "kernels/cpu/attention/columns_vdpbf16.hpp"
#include "kernels/cpu/attention/rows_vdpbf16.hpp"
#include "kernels/cpu/gemm/coded_dots_vdpbf16.hpp"
#include "kernels/cpu/gemm/dots_vdpbf16.hpp"
#include "kernels/cpu/gemm/int8/one_stream_vnni.hpp"
#include "kernels/cpu/rows/row_kernels.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels::cpu {
namespace TROUPE_ISA_NAMESPACE {

static void dot_attention(const attention_block& block) {
  if (block.cache_type == dtype::f32)
    avx512_table.attention(block);
  else
    attention_in_spans<products_on_dots>(block);
}

static void dot_attention_columns(const attention_block& block) {
  if (block.cache_type == dtype::f32)
    avx512_table.attention(block);
  else
    column_attention_block<dot_columns>(block);
}

} // namespace TROUPE_ISA_NAMESPACE

const kernel_table& avx512_bf16_table() {
  static const kernel_table table = [] {
    kernel_table t = avx512_table;
    t.set = isa::avx512_bf16;
    t.bf16_dots = TROUPE_ISA_NAMESPACE::dots<TROUPE_ISA_NAMESPACE::packed_blocks>;
    t.bf16_dot_runs = TROUPE_ISA_NAMESPACE::dots_in_runs<TROUPE_ISA_NAMESPACE::packed_blocks>;
    t.coded_dots = TROUPE_ISA_NAMESPACE::dots<TROUPE_ISA_NAMESPACE::coded_blocks>;
    t.coded_dot_runs = TROUPE_ISA_NAMESPACE::dots_in_runs<TROUPE_ISA_NAMESPACE::coded_blocks>;
    t.dot_run_rows = TROUPE_ISA_NAMESPACE::dot_rows;
    t.pack_row_dots = TROUPE_ISA_NAMESPACE::pack_row_dots;
    t.finish_rows = TROUPE_ISA_NAMESPACE::finish_rows;
    t.activate_rows = TROUPE_ISA_NAMESPACE::activate_rows;
    t.quant.integer_groups = TROUPE_ISA_NAMESPACE::integer_panels_vnni<TROUPE_ISA_NAMESPACE::group_fetcher>;
    t.quant.integer_one_stream = TROUPE_ISA_NAMESPACE::integer_one_stream;
    t.quant.int8_stream_rows = TROUPE_ISA_NAMESPACE::int8_stream_rows;
    t.quant.int4_stream_rows = 1;
    t.attention = TROUPE_ISA_NAMESPACE::dot_attention;
    t.attention_columns = TROUPE_ISA_NAMESPACE::dot_attention_columns;
    return t;
  }();
  return table;
}

} // namespace troupe::kernels::cpu
