#include "config/camera.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/errors.h"
#include "config/memory.h"

enum { MOST_URL = 2048, MOST_NAME = 64, MOST_PORT = 65535, MOST_SIDE = 16384, DEFAULT_WIDTH = 1920, DEFAULT_HEIGHT = 1080 };

#define SCHEMES "rtsp://, rtsps://, http://, https://, srt://, file:/ or v4l2:/dev/"

static const char *const network_schemes[] = {"rtsp", "rtsps", "http", "https", "srt"};

struct problem {
  const char *what, *remedy; /* `what` is NULL for a sound URL */
};

static bool is_scheme(const char *url, const char *scheme) {
  size_t length = strlen(scheme);
  return strncmp(url, scheme, length) == 0 && url[length] == ':';
}

static bool is_network(const char *url) {
  bool found = false;
  for (size_t i = 0; i < sizeof network_schemes / sizeof network_schemes[0]; i++) {
    found = found || is_scheme(url, network_schemes[i]);
  }
  return found;
}

/* -- one URL ----------------------------------------------------------------------------------------------------- */

/* "host", "host:554" or "[2001:db8::1]:554". */
static struct problem check_authority(const char *authority, size_t length) {
  const char *end = authority + length;
  const char *bracket = authority[0] == '[' ? memchr(authority, ']', length) : NULL;
  const char *host_end = bracket ? bracket + 1 : memchr(authority, ':', length);
  const char *port = host_end && host_end < end ? host_end + 1 : NULL;
  if (memchr(authority, '@', length)) {
    return (struct problem){
        "has a user or a password in it, which everybody would see who may see the status",
        "write credentials: NAME, put USER:PASSWORD into /etc/framed/credentials/NAME with mode 0640 and group "
        "framed, and remove both from the URL"};
  }
  if (length == 0 || host_end == authority || (authority[0] == '[' && !bracket)) {
    return (struct problem){"names no host", "write for example rtsp://10.0.0.17/main"};
  }
  size_t digits = port ? strspn(port, "0123456789") : 0;
  if (port && (host_end[0] != ':' || digits == 0 || port + digits != end || digits > 5 || atoi(port) > MOST_PORT)) {
    return (struct problem){"has a port that is no number", "write for example rtsp://10.0.0.17:554/main"};
  }
  return (struct problem){NULL, NULL};
}

static struct problem check_network(const char *url) {
  const char *slashes = strchr(url, ':') + 1;
  if (strncmp(slashes, "//", 2) != 0) {
    return (struct problem){"has no // behind its scheme", "write for example rtsp://10.0.0.17/main"};
  }
  if (strchr(url, ' ')) {
    return (struct problem){"has a space in it", "write %20 for a space"};
  }
  return check_authority(slashes + 2, strcspn(slashes + 2, "/?#"));
}

static struct problem check_url(const char *url) {
  if (strlen(url) > MOST_URL) {
    return (struct problem){"has more than 2048 bytes", NULL};
  }
  if (is_network(url)) {
    return check_network(url);
  }
  if (is_scheme(url, "file") || is_scheme(url, "v4l2")) {
    bool is_absolute = strchr(url, ':')[1] == '/';
    return is_absolute ? (struct problem){NULL, NULL}
                       : (struct problem){"has no absolute path", "write for example file:/srv/yard.mp4 or v4l2:/dev/video0"};
  }
  return (struct problem){"has a scheme that framed does not know", "a URL begins with " SCHEMES};
}

void camera_read_url(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  char **url = target;
  char *text = value_read_text(reader, key->name, node);
  struct problem problem = text ? check_url(text) : (struct problem){NULL, NULL};
  if (problem.what) {
    config_errors_add(reader->errors, node->at, problem.remedy, "the URL of the source %s", problem.what);
  }
  if (text && !problem.what) {
    free(*url);
    *url = text;
  } else {
    free(text);
  }
}

/* -- its pipeline -------------------------------------------------------------------------------------------------- */

/* Only a file can wait for the pipeline. */
static bool is_live(const struct config_source *source) { return source->path && !is_scheme(source->path, "file"); }

static bool find_pixels(const struct config_vocabulary *vocabulary, const char *name, unsigned *index) {
  unsigned i = 0;
  while (vocabulary->pixels[i] && strcmp(vocabulary->pixels[i], name) != 0) {
    i++;
  }
  *index = i;
  return vocabulary->pixels[i];
}

void camera_set_defaults(struct reader *reader, const struct node *pipeline_node, struct config_pipeline *pipeline) {
  struct config_source *source = &pipeline->source;
  unsigned pixels;
  if (source->endpoint != CONFIG_CAMERA) {
    return;
  }
  source->protocol = CONFIG_PROTOCOL_NATIVE;
  if (!node_find(node_find(pipeline_node, "source"), "format") && find_pixels(reader->vocabulary, "nv12", &pixels)) {
    source->format =
        (struct config_format){.at = source->at, .pixels = pixels, .width = DEFAULT_WIDTH, .height = DEFAULT_HEIGHT};
  }
  if (!node_find(pipeline_node, "overload") && is_live(source)) {
    pipeline->overload = CONFIG_OVERLOAD_DROP_OLDEST;
  }
}

static struct config_mark place_of(const struct node *pipeline, const char *key) {
  const struct node *source = node_find(pipeline, "source");
  const struct node *node = node_find(source, key);
  return node ? node->at : source->name_at;
}

/* framed-camera scales to these formats only. */
static void check_format(struct reader *reader, const struct config_source *source) {
  static const char *const decoded[] = {"nv12", "rgb24", "bgr24", "gray", "yuv420p"};
  const struct config_format *format = &source->format;
  const char *pixels = format->is_tensor ? "" : reader->vocabulary->pixels[format->pixels];
  bool is_decoded = false;
  for (size_t i = 0; i < sizeof decoded / sizeof decoded[0]; i++) {
    is_decoded = is_decoded || strcmp(pixels, decoded[i]) == 0;
  }
  bool halves = strcmp(pixels, "nv12") == 0 || strcmp(pixels, "yuv420p") == 0;
  if (!is_decoded) {
    config_errors_add(reader->errors, format->at, "write pixels: nv12, and let a stage convert it",
                      "the pictures of a URL are given as nv12, rgb24, bgr24, gray or yuv420p only");
  } else if (format->width > MOST_SIDE || format->height > MOST_SIDE) {
    config_errors_add(reader->errors, format->at, NULL, "the pictures of a URL are given in at most %d x %d", MOST_SIDE,
                      MOST_SIDE);
  } else if (halves && (format->width % 2 != 0 || format->height % 2 != 0)) {
    config_errors_add(reader->errors, format->at, "make both even", "a picture of %s has an even width and height", pixels);
  }
}

/* Only such a name is a path directly below the folder of credentials. */
static bool is_name(const char *name) {
  size_t length = strlen(name);
  static const char *const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  return length > 0 && length <= MOST_NAME && strspn(name, letters) == length && name[0] != '.';
}

void camera_validate(struct reader *reader, const struct node *pipeline_node, const struct config_pipeline *pipeline) {
  const struct config_source *source = &pipeline->source;
  if (source->endpoint != CONFIG_CAMERA) {
    return;
  }
  check_format(reader, source);
  if (source->credentials && !is_name(source->credentials)) {
    config_errors_add(reader->errors, place_of(pipeline_node, "credentials"),
                      "name a file of /etc/framed/credentials: 1 to 64 letters, digits, '_', '-' and '.'",
                      "'credentials' is no name of a file");
  } else if (source->credentials && !is_network(source->path)) {
    config_errors_add(reader->errors, place_of(pipeline_node, "credentials"), "remove it",
                      "'credentials' are for URLs of the network");
  }
  if (source->transport == CONFIG_TRANSPORT_UDP && !is_scheme(source->path, "rtsp")) {
    config_errors_add(reader->errors, place_of(pipeline_node, "transport"), "remove it",
                      "'transport: udp' is for rtsp:// only");
  }
  if (pipeline->overload == CONFIG_OVERLOAD_BLOCK && is_live(source)) {
    const struct node *overload = node_find(pipeline_node, "overload");
    config_errors_add(reader->errors, overload ? overload->at : pipeline_node->name_at,
                      "write overload: drop-oldest (the default with a camera) or drop-newest",
                      "a camera does not wait for its pipeline, so that 'overload: block' is for files only");
  }
}

void config_credentials_path(const char *name, char *path, size_t size) {
  const char *folder = getenv("CREDENTIALS_DIRECTORY");
  if (folder) {
    snprintf(path, size, "%s/%s", folder, name);
  }
  if (!folder || access(path, F_OK) != 0) {
    snprintf(path, size, "/etc/framed/credentials/%s", name);
  }
}
