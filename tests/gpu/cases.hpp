// The checks, one function a file.
#pragma once

#include "tests/gpu/check.hpp"

namespace troupe::gpu_check {

void check_attention(session& s);
void check_combine(session& s);
void check_embedding(session& s);
void check_expert_table(session& s);
void check_experts(session& s);
void check_few_rows(session& s);
void check_tiled_rows(session& s);
void check_kv_blocks(session& s);
void check_many_rows(session& s);
void check_norm(session& s);
void check_qkv(session& s);
void check_router(session& s);
void check_sampling(session& s);

} // namespace troupe::gpu_check
