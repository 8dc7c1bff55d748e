/* What systemd's logind says of idle sessions, over D-Bus. libsystemd is opened at run time; where
 * it, or logind, is not there, nothing is known. */
#ifndef QN_LEARN_SENSES_LOGIND_H
#define QN_LEARN_SENSES_LOGIND_H

#include "quern/base.h"

/* Minutes for which all sessions have been idle, by what desktops report (IdleHint): 0 where one is
 * in use; NaN: not known, or there is no session that could be. */
double qn_logind_idle_minutes(void);

#endif
