#include "daemon/status/viewer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRITE_ALL = 0002, WRITE_GROUP = 0020, WRITE_OWNER = 0200 }; /* connect() asks for the right to write */

void viewer_read(struct viewer *viewer, const struct http_request *request, bool has_token) {
  const int fd = http_unix_socket(request);
  *viewer = (struct viewer){.sees_all = has_token};
  if (fd >= 0 && peer_read(fd, &viewer->peer)) {
    viewer->is_known = true;
    viewer->sees_all = viewer->peer.uid == 0 || viewer->peer.uid == geteuid();
  }
}

void viewer_clear(struct viewer *viewer) { peer_clear(&viewer->peer); }

static bool is_in_group(const struct peer *peer, gid_t group) {
  for (unsigned i = 0; i < peer->group_count; i++) {
    if (peer->groups[i] == group) {
      return true;
    }
  }
  return false;
}

/* Whether the viewer could connect to a socket with these rights. Where they name nobody, the daemon's own user made it. */
static bool may_connect(const struct viewer *viewer, const struct config_socket_access *access) {
  if (viewer->sees_all) {
    return true;
  }
  if (!viewer->is_known) {
    return access->allow.user_count == 0 && access->allow.group_count == 0 && (access->mode & WRITE_ALL) != 0;
  }
  const uid_t owner = access->owner != (uid_t)-1 ? access->owner : geteuid();
  const gid_t group = access->group != (gid_t)-1 ? access->group : getegid();
  const mode_t needed = viewer->peer.uid == owner ? WRITE_OWNER : is_in_group(&viewer->peer, group) ? WRITE_GROUP : WRITE_ALL;
  return (access->mode & needed) != 0 && peer_allowed(&viewer->peer, &access->allow);
}

/* A pipeline that replies has one socket for both sides. A file has no rights of its own here. A camera has those of a socket
 * with the default mode, unless its results go to a socket. */
static const struct config_socket_access *socket_of(const struct config_pipeline *pipeline, bool out) {
  if (out && pipeline->sink.endpoint == CONFIG_SOCKET) {
    return &pipeline->sink.access;
  }
  if (!out && pipeline->source.endpoint == CONFIG_CAMERA && pipeline->sink.endpoint != CONFIG_SOCKET) {
    return &pipeline->source.access;
  }
  return pipeline->source.endpoint == CONFIG_SOCKET && (!out || pipeline->sink.endpoint == CONFIG_REPLY)
             ? &pipeline->source.access
             : NULL;
}

bool viewer_sees_side(const struct viewer *viewer, const struct config_pipeline *pipeline, bool out) {
  const struct config_socket_access *own = socket_of(pipeline, out), *other = socket_of(pipeline, !out);
  const struct config_socket_access *access = own ? own : other; /* frames of a file are as private as the socket beside it */
  return !access || may_connect(viewer, access);
}

bool viewer_sees(const struct viewer *viewer, const struct config_pipeline *pipeline) {
  const bool in = viewer_sees_side(viewer, pipeline, false), out = viewer_sees_side(viewer, pipeline, true);
  return viewer->is_known ? in || out : in && out;
}

/* -- the configuration ------------------------------------------------------------------------------------------------ */

/* A pipeline's text is part of the whole, word for word and indented by two, below its name. */
static char *name_line(char *text, const struct config_pipeline *pipeline) {
  for (char *line = strstr(text, "\npipelines:\n"); line; line = strchr(line + 1, '\n')) {
    const char *name = line + strspn(line, "\n ");
    const size_t quote = *name == '"' || *name == '\'', length = strlen(pipeline->name);
    if (name - line == 3 && strncmp(name + quote, pipeline->name, length) == 0 && name[quote + length + quote] == ':') {
      return line;
    }
  }
  return NULL;
}

static const char *next_pipeline(const char *line) {
  do {
    line = strchr(line + 1, '\n');
  } while (line && strncmp(line + 1, "    ", 4) == 0);
  return line;
}

char *viewer_config(const struct viewer *viewer, const struct config *config) {
  char *text = strdup(config->text);
  for (unsigned i = 0; i < config->pipeline_count && text; i++) {
    if (viewer_sees(viewer, &config->pipelines[i])) {
      continue;
    }
    char *begin = name_line(text, &config->pipelines[i]);
    const char *end = begin ? next_pipeline(begin) : NULL;
    if (!begin) {
      free(text);
      return NULL;
    }
    memmove(begin + 1, end ? end + 1 : "", end ? strlen(end) : 1);
  }
  return text;
}
