/*
 * A recording on disk: a file of complete results or frames, and its index.
 *
 * While it is written the segment is NAME.part and its index NAME.part.index, and the writer holds a lock (flock) on NAME.part.
 * A finished segment is NAME with NAME.index. The index always comes first: an entry is written before its bytes, and the index
 * is renamed before the data. So after a kill at any moment an entry is valid if its bytes exist, and NAME always has its
 * index. framed-protocol(7) describes both files for other programs.
 */
#ifndef FRAMED_WIRE_SEGMENT_H
#define FRAMED_WIRE_SEGMENT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/wire/folder.h"

#define SEGMENT_PART  ".part"
#define SEGMENT_INDEX ".index"

enum { SEGMENT_MAGIC = 0x49524D46 /* "FMRI" */, SEGMENT_VERSION = 2, SEGMENT_OWNER = 72, SEGMENT_PROBLEM = PATH_MAX + 128 };

/* The start of an index. Numbers are little-endian; times are ns since 1970. */
struct segment_head {
  uint32_t magic;
  uint16_t version;
  uint16_t entry_bytes;      /* entries of version 1 have no epoch */
  int64_t began;             /* earliest time of its first result */
  uint64_t payload;          /* bytes of one result or frame without its prefix; 0: lines */
  char owner[SEGMENT_OWNER]; /* the pipeline, padded with zeros */
  unsigned char rest[32];    /* 0 */
};

enum { SEGMENT_RESTART = 1 }; /* the first frame of its producer: stages reset their state */

struct segment_entry {
  uint64_t offset, bytes; /* in the data, with the prefix */
  uint64_t sequence;      /* counts the frames of its producer from 0 */
  uint64_t tag;           /* number that the producer sent, else `sequence` */
  int64_t stamp;          /* capture time if the producer sent one, else time of the first byte */
  int64_t came;           /* when it was complete */
  int64_t deadline;       /* its own deadline; 0: none */
  uint32_t flags;
  uint32_t zero;
  /* Start of its producer. Epoch, `sequence` and pipeline identify the frame. 0: unknown. */
  uint64_t epoch;
};

enum { SEGMENT_BLOCK = 128 }; /* entries that are read at once */

/* An open index. Its folder may be writable for others, so nothing in it is trusted. An entry returned from here has its bytes
 * in the data, and times whose differences do not overflow. */
struct segment_index {
  int fd;
  struct segment_head head;
  int64_t size;   /* bytes of the data */
  uint64_t count; /* entries up to the last one whose bytes exist */
  int64_t end;    /* end of that entry's bytes; 0: no entry */
  uint64_t first; /* number of the first entry in `block` */
  unsigned have;
  struct segment_entry block[SEGMENT_BLOCK];
};

/* Opens the index of data of that size. Returns false if it does not begin like an index. */
bool segment_index_open(struct segment_index *index, int fd, int64_t size);
/* Returns false if there is no such entry, or it is damaged. */
bool segment_index_read(struct segment_index *index, uint64_t number, struct segment_entry *entry);
/* Reads the head. Returns false if it is not valid. */
bool segment_read_head(int index, struct segment_head *head);

/* The outcome of finishing a segment. */
struct segment_closed {
  uint64_t entries;
  int64_t cut;         /* bytes of a partial result that are cut off at the end */
  char name[PATH_MAX]; /* its name now; empty: it was empty and is removed */
};

/* Opens an unfinished segment by its name with ".part" and locks it. -1: it cannot be opened, or (EWOULDBLOCK) is being
 * written. */
int segment_open_part(const struct folder_entry *part, int flags);
/* Opens the index of an unfinished segment; -1: not found. */
int segment_open_index(const struct folder_entry *part, int flags);
/* Finishes a segment: cuts off a partial result, syncs both files and renames them. `part` may be closed afterwards. Files that
 * somebody renamed are left alone. Blocks. On false `problem` has the reason, and nothing was lost. */
bool segment_close(const struct folder_entry *part, int fd, int index, struct segment_closed *closed,
                   char problem[SEGMENT_PROBLEM]);
/* Removes an unfinished segment with its index. */
void segment_remove(const struct folder_entry *part);
/* Finishes a segment by its name alone. */
bool segment_repair(const struct folder_entry *part, struct segment_closed *closed, char problem[SEGMENT_PROBLEM]);

#endif
