/* What the generated file of stubs is made of: the calls that torch links to and nobody here wrote by hand. */
#ifndef STUBS_H
#define STUBS_H

#include "standin.h"

#include <stdio.h>

/* Does nothing and says that it worked: computations, settings, descriptors. */
#define DOES_NOTHING(function) \
    API int function(void) \
    { \
        static bool said; \
        if (!said && (said = true) && tracing()) \
            fprintf(stderr, "emulated CUDA: %s does nothing\n", #function); \
        return 0; \
    }

/* Should answer a size, a count or an object. To say that it worked and leave the answer unwritten would hand garbage
 * on: a request of an exabyte, a pointer to nowhere. */
#define CANNOT_ANSWER(function) \
    API int function(void) \
    { \
        static bool said; \
        if (!said && (said = true)) \
            fprintf(stderr, "emulated CUDA: %s is not emulated\n", #function); \
        return 9; \
    }

#endif
