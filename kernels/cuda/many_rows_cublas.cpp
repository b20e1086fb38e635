#include <cublas_v2.h>

#include <cstring>
#include <vector>

#include "kernels/cuda/cuda_error.hpp"
#include "kernels/cuda/many_rows.hpp"

namespace troupe::kernels::cuda {

namespace {

// NVIDIA's recommendation for Hopper (cuBLAS manual, cublasSetWorkspace). With our own workspace, results do
// not depend on other streams, and products can be recorded into graphs.
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

// Grouped products whose pointers wait in pinned memory at a time: if all are enqueued and none has begun,
// the host waits.
constexpr std::size_t ring_slots = 16;

void check(cublasStatus_t status, const char* operation) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return;
  cuda::check(cudaGetLastError(), operation); // CUDA's error, if any, says more than cuBLAS's
  throw device_error(operation, cublasGetStatusString(status));
}

cudaDataType_t type_of(dtype type) {
  return type == dtype::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

int as_int(std::size_t value) {
  if (value > 0x7fffffffU)
    throw device_error("multiply many rows", "a dimension above 2^31");
  return static_cast<int>(value);
}

} // namespace

// Row-major y [rows, outputs] is column-major [outputs, rows] = Wᵀ-transposed times x: A is W, B is x.
struct many_rows::state {
  cublasHandle_t handle = nullptr;
  device_memory workspace{workspace_bytes};
  std::size_t most_groups;
  // [3, most_groups]: pointers to weights, inputs, outputs of groups; on the host [ring_slots] of that.
  pinned_memory host_pointers;
  device_memory device_pointers;
  event copied[ring_slots]; // the slot's pointers may be reused
  std::size_t slot = 0;
  std::vector<cublasOperation_t> transposed;
  std::vector<cublasOperation_t> plain;
  std::vector<int> outputs;
  std::vector<int> rows;
  std::vector<int> inputs;
  std::vector<int> ones;
  std::vector<float> alphas;
  std::vector<float> betas;

  explicit state(std::size_t groups)
      : most_groups(groups),
        host_pointers(ring_slots * 3 * groups * sizeof(void*)),
        device_pointers(3 * groups * sizeof(void*)),
        transposed(groups, CUBLAS_OP_T),
        plain(groups, CUBLAS_OP_N),
        outputs(groups),
        rows(groups),
        inputs(groups),
        ones(groups, 1),
        alphas(groups, 1.0F),
        betas(groups, 0.0F) {
    check(cublasCreate(&handle), "create a cuBLAS handle");
    // Parts of a split sum are added in FP32, too.
    check(cublasSetMathMode(handle,
                            static_cast<cublasMath_t>(
                                static_cast<unsigned>(CUBLAS_DEFAULT_MATH)
                                | static_cast<unsigned>(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION))),
          "set cuBLAS's math mode");
  }

  ~state() {
    if (handle != nullptr)
      cublasDestroy(handle);
  }

  state(const state&) = delete;
  state& operator=(const state&) = delete;

  void use(const stream& on) {
    check(cublasSetStream(handle, static_cast<cudaStream_t>(on.native())), "give cuBLAS a stream");
    check(cublasSetWorkspace(handle, workspace.data(), workspace.size()), "give cuBLAS a workspace");
  }
};

many_rows::many_rows(std::size_t most_groups) : state_(std::make_unique<state>(most_groups)) {}

many_rows::~many_rows() = default;

void many_rows::multiply(const stream& on, const many_rows_args& args, const bfloat16* weights,
                         std::size_t rows, bool add) {
  if (rows == 0)
    return;
  state_->use(on);
  const float alpha = 1.0F;
  const float beta = add ? 1.0F : 0.0F;
  check(cublasGemmEx(state_->handle, CUBLAS_OP_T, CUBLAS_OP_N, as_int(args.outputs), as_int(rows),
                     as_int(args.inputs), &alpha, weights, CUDA_R_16BF, as_int(args.inputs), args.input,
                     CUDA_R_16BF, as_int(args.inputs), &beta, args.output, type_of(args.output_type),
                     as_int(args.outputs), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "multiply many rows (cublasGemmEx)");
}

void many_rows::multiply_groups(const stream& on, const many_rows_args& args,
                                std::span<const row_group> groups) {
  if (groups.size() > state_->most_groups)
    throw device_error("multiply groups of rows", "more groups than there is room for");
  const std::size_t slot = state_->slot;
  state_->slot = (slot + 1) % ring_slots;
  state_->copied[slot].synchronize();
  auto* pointers = state_->host_pointers.as<const void*>() + slot * 3 * state_->most_groups;
  std::size_t count = 0;
  for (const row_group& group : groups) {
    if (group.rows == 0)
      continue;
    pointers[count] = group.weights;
    pointers[state_->most_groups + count] = args.input + group.first_row * args.inputs;
    pointers[2 * state_->most_groups + count] = static_cast<const std::byte*>(args.output)
                                                + bytes_of(args.output_type, group.first_row * args.outputs);
    state_->outputs[count] = as_int(args.outputs);
    state_->rows[count] = as_int(group.rows);
    state_->inputs[count] = as_int(args.inputs);
    ++count;
  }
  if (count == 0)
    return;
  on.copy_to_device(state_->device_pointers.data(), pointers, state_->device_pointers.size());
  state_->copied[slot].record(on);
  state_->use(on);
  auto** on_device = state_->device_pointers.as<void*>();
  check(cublasGemmGroupedBatchedEx(
            state_->handle, state_->transposed.data(), state_->plain.data(), state_->outputs.data(),
            state_->rows.data(), state_->inputs.data(), state_->alphas.data(), on_device, CUDA_R_16BF,
            state_->inputs.data(), on_device + state_->most_groups, CUDA_R_16BF, state_->inputs.data(),
            state_->betas.data(), on_device + 2 * state_->most_groups, type_of(args.output_type),
            state_->outputs.data(), as_int(count), state_->ones.data(), CUBLAS_COMPUTE_32F),
        "multiply groups of rows (cublasGemmGroupedBatchedEx)");
}

} // namespace troupe::kernels::cuda
