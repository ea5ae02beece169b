/*
 * Limits that framed-camera sets for itself before it reads a stranger's bytes.
 *
 * A camera, or an attacker in its place, sends bytes that millions of lines of C parse. An attacker who takes over this process
 * gets little: no new rights, no other program, no file to create or remove, no memory of other processes, bounded memory.
 */
#ifndef FRAMED_TOOLS_CAMERA_CONFINE_H
#define FRAMED_TOOLS_CAMERA_CONFINE_H

#include <stdbool.h>

/* Before the password is read: no core dump, and no look into this process by others. */
void confine_secrets(void);

/* Before the first connection; `has_device`: to a camera of this machine. False: the system refused a limit. */
bool confine_all(bool has_device);

#endif
