// Kernels of AMX: AVX-512's, with products of BF16 weights and attention on tiles. Compiled with the flags of
// both (CMakeLists.txt).
#if defined(__GNUC__)
#  pragma GCC diagnostic ignored "-Wunused-function" // only some of the headers' kernels are used here
#endif

// Every processor with AMX has AVX512_BF16.
#define TROUPE_NATIVE_BF16

#include "kernels/cpu/attention/columns_amx.hpp"
#include "kernels/cpu/attention/rows_amx.hpp"
#include "kernels/cpu/gemm/coded_tiles_amx.hpp"
#include "kernels/cpu/gemm/int8/row_tiles_amx.hpp"
#include "kernels/cpu/gemm/int8/tiles_amx.hpp"
#include "kernels/cpu/gemm/tiles_amx.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels::cpu {

namespace TROUPE_ISA_NAMESPACE {

static void amx_attention(const attention_block& block) {
  if (block.cache_type == dtype::f32)
    avx512_table.attention(block);
  else
    tile_attention_block(block);
}

static void amx_attention_columns(const attention_block& block) {
  if (block.cache_type == dtype::f32)
    avx512_table.attention(block);
  else
    column_attention_block<tile_columns>(block);
}

} // namespace TROUPE_ISA_NAMESPACE

const kernel_table& amx_table() {
  static const kernel_table table = [] {
    kernel_table t = avx512_table;
    t.set = isa::amx;
    t.bf16_tiles = TROUPE_ISA_NAMESPACE::bf16_tiles;
    t.coded_tiles = TROUPE_ISA_NAMESPACE::coded_tiles;
    t.pack_row_tiles = TROUPE_ISA_NAMESPACE::pack_row_tiles;
    t.finish_rows = TROUPE_ISA_NAMESPACE::finish_rows;
    t.activate_rows = TROUPE_ISA_NAMESPACE::activate_rows;
    t.int8_tiles = TROUPE_ISA_NAMESPACE::int8_tiles;
    t.scale_int8_tiles = TROUPE_ISA_NAMESPACE::scale_int8_tiles;
    t.quantize_row_tiles = TROUPE_ISA_NAMESPACE::quantize_row_tiles;
    t.unpack_int4 = TROUPE_ISA_NAMESPACE::unpack_int4;
    t.quant.integer_row_tiles = TROUPE_ISA_NAMESPACE::amx_integer;
    t.attention = TROUPE_ISA_NAMESPACE::amx_attention;
    t.attention_columns = TROUPE_ISA_NAMESPACE::amx_attention_columns;
    return t;
  }();
  return table;
}

} // namespace troupe::kernels::cpu
