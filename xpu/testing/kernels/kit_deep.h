/* Includes itself 2^60 times: a compilation that takes for ever and little memory. */
#if __INCLUDE_LEVEL__ < 60
#include "kit_deep.h"
#include "kit_deep.h"
#endif
