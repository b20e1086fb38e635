#include "kernels/cuda/nccl_api.hpp"

#include <dlfcn.h>

#include <string>

#include "kernels/collective.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr const char* library_name = "libnccl.so.2";

class library {
 public:
  library() : handle_(dlopen(library_name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr)
      throw collective_error(std::string("NCCL cannot be loaded: ") + dlerror());
  }

  template <class Function>
  void find(const char* name, Function& to) const {
    to = reinterpret_cast<Function>(dlsym(handle_, name));
    if (to == nullptr)
      throw collective_error(std::string(library_name) + " has no " + name + ": it is too old");
  }

 private:
  void* handle_; // never closed: NCCL has threads
};

nccl_api load() {
  const library nccl;
  nccl_api api;
  nccl.find("ncclGetErrorString", api.error_string);
  nccl.find("ncclGetUniqueId", api.make_id);
  nccl.find("ncclCommInitRankConfig", api.init_rank);
  nccl.find("ncclCommGetAsyncError", api.state);
  nccl.find("ncclCommFinalize", api.finalize);
  nccl.find("ncclCommDestroy", api.destroy);
  nccl.find("ncclCommAbort", api.abort);
  nccl.find("ncclGroupStart", api.group_start);
  nccl.find("ncclGroupEnd", api.group_end);
  nccl.find("ncclAllReduce", api.all_reduce);
  nccl.find("ncclAllGather", api.all_gather);
  nccl.find("ncclBroadcast", api.broadcast);
  nccl.find("ncclSend", api.send);
  nccl.find("ncclRecv", api.receive);
  return api;
}

} // namespace

const nccl_api& loaded_nccl() {
  static const nccl_api api = load();
  return api;
}

} // namespace troupe::kernels::cuda
