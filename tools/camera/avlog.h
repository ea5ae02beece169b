/*
 * The log of libavformat: it holds two facts that no call returns, the status of an answer and the number of missed packets.
 *
 * Nothing of the log is printed or kept as text: its lines hold URLs, and URLs hold passwords.
 */
#ifndef FRAMED_TOOLS_CAMERA_AVLOG_H
#define FRAMED_TOOLS_CAMERA_AVLOG_H

#include <stdint.h>

/* Takes the place of libav's own log. */
void avlog_begin(void);

/* Returns the last status of RTSP or HTTP that was an error, and resets it. 0: no error. */
int avlog_take_status(void);

/* RTP packets that were missed since the start. */
uint64_t avlog_missed(void);

#endif
