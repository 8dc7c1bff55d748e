/* Option structs filled by a program that may have been compiled with another version of the
 * header. They are copied into a struct of this version.
 *
 *     options                 copy
 *     shorter                 the remaining fields are 0, the default
 *     longer                  accepted if all further bytes are 0, else QN_ERROR_UNSUPPORTED
 *     size of no version      QN_ERROR_ARGUMENT */
#ifndef QN_BASE_OPTIONS_H
#define QN_BASE_OPTIONS_H

#include "quern/base.h"

/* options begin with their size, taken is of `bytes`. name: the struct's, for messages. On failure
 * taken is undefined. */
qn_status qn_options_take(const void *options, size_t bytes, const char *name, void *taken);

/* The same of options whose second field are other options, `inner_bytes` of ours, with a size of
 * their own. */
qn_status qn_options_take_nested(const void *options, size_t bytes, size_t inner_bytes,
                                 const char *name, void *taken);

#define QN_OPTIONS_TAKE(type, options, taken) qn_options_take(options, sizeof(type), #type, taken)

#endif
