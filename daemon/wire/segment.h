/*
 * A recording on disk: a file of results or frames, whole ones only, and an index of them beside it.
 *
 * While it is written to a segment is called NAME.part and its index NAME.part.index; whoever writes holds a lock (flock) on
 * NAME.part. A finished one is NAME with NAME.index. The index comes first at every step: an entry is written before the bytes
 * that it describes, and the index gets its name before the data does. So an entry counts if its bytes are there, and where
 * NAME is there its index is, too, wherever a process was killed. framed-protocol(7) describes both for other programs.
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

/* At the beginning of an index. Numbers are little-endian; times are ns since 1970. */
struct segment_head {
  uint32_t magic;
  uint16_t version;
  uint16_t entry_bytes;      /* in version 1 entries have no epoch */
  int64_t began;             /* when its first result could come */
  uint64_t payload;          /* bytes of one result or frame without what stands before it; 0: lines */
  char owner[SEGMENT_OWNER]; /* the pipeline, zeros behind it */
  unsigned char rest[32];    /* 0 */
};

enum { SEGMENT_RESTART = 1 }; /* the first of its producer: stages with a state begin anew */

struct segment_entry {
  uint64_t offset, bytes; /* in the data, with what stands before it */
  uint64_t sequence;      /* counts the frames of its producer from 0 */
  uint64_t tag;           /* the number that the producer gave it, or else the same */
  int64_t stamp;          /* its capture if its producer said when, else its first byte */
  int64_t came;           /* when it was complete */
  int64_t deadline;       /* its own; 0: none */
  uint32_t flags;
  uint32_t zero;
  uint64_t epoch; /* of its producer; with the pipeline and `sequence` it names the frame for ever. 0: not known */
};

enum { SEGMENT_BLOCK = 128 }; /* entries that are read at once */

/* An index that is read. Whoever may write to its folder may have written anything there: an entry that comes from here has its
 * bytes in the data, and times that can be subtracted from each other. */
struct segment_index {
  int fd;
  struct segment_head head;
  int64_t size;   /* bytes of the data */
  uint64_t count; /* entries up to the last one whose bytes are there, */
  int64_t end;    /* and where these end; 0: there is none */
  uint64_t first; /* of the entries in `block` */
  unsigned have;
  struct segment_entry block[SEGMENT_BLOCK];
};

/* Begins to read the index of data of that size. False: it does not begin as an index does. */
bool segment_index_open(struct segment_index *index, int fd, int64_t size);
/* False: the index has no such entry, or a damaged one. */
bool segment_index_read(struct segment_index *index, uint64_t number, struct segment_entry *entry);
/* Whether an index begins as one. */
bool segment_read_head(int index, struct segment_head *head);

/* What became of a segment. */
struct segment_closed {
  uint64_t entries;
  int64_t cut;         /* bytes of a part of a result at its end, which are cut off */
  char name[PATH_MAX]; /* what it is called now; empty: nothing was in it, and it is gone */
};

/* Opens a segment that was left unfinished, by its name with ".part", and locks it. -1: it cannot be opened, or (EWOULDBLOCK)
 * is being written. */
int segment_open_part(const struct folder_entry *part, int flags);
/* Opens the index that belongs to it; -1: there is none. */
int segment_open_index(const struct folder_entry *part, int flags);
/* Cuts off what is not whole, has both on the disk, and gives them their names; `part` may be closed afterwards. What has
 * another name than it was given is left alone. Blocks. False: why stands in `problem`, and everything is as it was as far as
 * it goes. */
bool segment_close(const struct folder_entry *part, int fd, int index, struct segment_closed *closed,
                   char problem[SEGMENT_PROBLEM]);
/* Removes an unfinished one with its index. */
void segment_remove(const struct folder_entry *part);
/* Finishes one by its name alone. */
bool segment_repair(const struct folder_entry *part, struct segment_closed *closed, char problem[SEGMENT_PROBLEM]);

#endif
