/* The lines of the protocol between quern and an environment's process, specified in
 * docs/environments.md. Parsers read only the line, which contains no newline, and change their
 * result only if they succeed. */
#ifndef QN_ENV_PROTOCOL_H
#define QN_ENV_PROTOCOL_H

#include "env/env.h"

enum { QN_ENV_PROTOCOL_VERSION = 1, QN_ENV_LINE = 256 };

/* "quern-environment 1 observation u8 84x84 actions 4 frames 4" */
qn_status qn_env_parse_hello(const char *line, qn_env_space *space);

/* "reward 1 running", "error TEXT" */
qn_status qn_env_parse_reply(const char *line, qn_env_outcome *outcome);

#endif
