/*
 * What libavformat says in its log and in no other way: the status of an answer and the number of packets that it missed.
 *
 * Nothing of the log is printed or kept as text: its lines hold URLs, and URLs hold passwords.
 */
#ifndef FRAMED_TOOLS_CAMERA_HEARD_H
#define FRAMED_TOOLS_CAMERA_HEARD_H

#include <stdint.h>

/* Takes the place of libav's own log. */
void heard_begin(void);

/* The status of the last answer of RTSP or HTTP that was an error, and forgets it; 0: there was none. */
int heard_take_status(void);

/* RTP packets that were missed since the start. */
uint64_t heard_missed(void);

#endif
