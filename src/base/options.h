/* Options that a program fills, made with the header of another version of the library: what they
 * have is copied into a struct of ours.
 *
 *     options                 ours
 *     shorter                 the rest is 0, the default
 *     longer                  what is beyond is 0, or QN_ERROR_UNSUPPORTED
 *     no size of any header   QN_ERROR_ARGUMENT
 */
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
