// The seccomp filter of a template process.
#pragma once

namespace troupe::text {

/// From now on only the system calls that a single-threaded Python needs for computing, and for the open
/// sockets, succeed in this thread. All others fail with EPERM. Needs no_new_privs.
/// @returns 0, or the errno of the kernel's refusal
int install_syscall_filter();

} // namespace troupe::text
