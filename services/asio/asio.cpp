// The functions of Boost.Asio that are no templates.
#include <utility> // Asio of Boost 1.74 needs it before its own headers

#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
