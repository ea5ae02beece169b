/*
 * Words of cameras, networks and codecs that users write where framed has none of it, and the command that does the work.
 *
 * framed takes decoded frames from sockets and files of this machine. Without these remedies an error for `url: rtsp://...`
 * or `pixels: h264` would list keys and formats, of which none helps.
 */
#ifndef FRAMED_CONFIG_FOREIGN_H
#define FRAMED_CONFIG_FOREIGN_H

#include <stdbool.h>

/* "rtsp://camera/1", and "unix:/run/x" as ffmpeg has it. */
bool foreign_is_url(const char *text);
/* How the stream at such a URL gets into a source, or results from a sink to there. */
const char *foreign_url_remedy(const char *text, bool is_sink);
/* The remedy for an unknown key ("url", "codec") or value ("mjpeg", "rtsp"); NULL: this is no word of cameras either. */
const char *foreign_word_remedy(const char *word, bool is_sink);

#endif
