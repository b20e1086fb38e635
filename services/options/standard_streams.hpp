// Standard input, output and error of a process that may have been started without them.
#pragma once

namespace troupe {

/// Opens /dev/null on those of the descriptors 0 to 2 that are closed. Call it before opening anything else:
/// otherwise the first file or socket would get such a number and receive the printed text.
void open_standard_streams() noexcept;

} // namespace troupe
