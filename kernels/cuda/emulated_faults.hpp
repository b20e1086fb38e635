// Faults of the emulated device, for tests.
#pragma once

namespace troupe::kernels::cuda {

/// From now on the device is lost, as after a kernel's access to a wrong address: whoever waits for it or
/// takes memory gets a device_error that says so. False: it is well again, which a real one never is.
/// @threads any
void lose_emulated_device(bool lost);

} // namespace troupe::kernels::cuda
