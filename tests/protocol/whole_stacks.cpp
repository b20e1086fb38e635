// UCX is built without frame pointers: only the slow unwinder sees who called its allocator, by which
// tests/lsan.supp knows UCX's own leak. It doubles this program's CPU time, hence not for every program.

/// What the address sanitizer of this program starts with; ASAN_OPTIONS adds to it.
extern "C" const char* __asan_default_options() {
  return "fast_unwind_on_malloc=0";
}
