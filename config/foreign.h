/*
 * Words of cameras, networks and codecs that users may write although framed does not support them, with the command that does
 * the work.
 *
 * framed takes decoded frames from sockets and files of this machine. Without these remedies, an error for `url: rtsp://...` or
 * `pixels: h264` would list keys and formats that do not help.
 */
#ifndef FRAMED_CONFIG_FOREIGN_H
#define FRAMED_CONFIG_FOREIGN_H

#include <stdbool.h>

/* Recognises "rtsp://camera/1", and ffmpeg's form "unix:/run/x". */
bool foreign_is_url(const char *text);
/* The command that feeds a source from such a URL, or sends a sink's results there. */
const char *foreign_url_remedy(const char *text, bool is_sink);
/* The remedy for an unknown key ("url", "codec") or value ("mjpeg", "rtsp"); NULL if the word is unknown here, too. */
const char *foreign_word_remedy(const char *word, bool is_sink);

#endif
