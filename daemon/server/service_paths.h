/* Which paths of a configuration the service cannot use as they stand, though the shell that checks it can. */
#ifndef FRAMED_SERVER_SERVICE_PATHS_H
#define FRAMED_SERVER_SERVICE_PATHS_H

#include <stdio.h>

#include "config/config.h"
#include "daemon/base/systemd_unit.h"

/* Why a service with these rules cannot use the path, with what to do; NULL: it can. Relative paths are from "/", where
 * services start. `writes`: it is made or written there. */
const char *service_paths_judge(const struct unit_rules *rules, const char *path, bool writes);
/* Notes each such path, if systemd has the service. */
void service_paths_print(FILE *out, const struct config *config);

#endif
