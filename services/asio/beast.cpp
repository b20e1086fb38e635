// The functions of Boost.Beast that are no templates.
#include <utility> // Asio of Boost 1.74 needs it before its own headers

#include <boost/beast/src.hpp>
