/* framectl camera: shows what a camera sends, and prints a pipeline to configure. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/framectl/camera/find.h"
#include "tools/framectl/camera/run.h"
#include "tools/framectl/command.h"
#include "tools/framectl/common/text.h"

enum { CREDENTIALS = 1024, COLUMNS = 80, MOST_WIDTH = 1920 };

/* -- credentials ------------------------------------------------------------------------------------------------------- */

/* The first line of a file as the daemon reads it. */
static bool read_credentials(const char *path, char line[CREDENTIALS], struct problem *problem) {
  FILE *file = fopen(path, "re");
  bool good = file && fgets(line, CREDENTIALS, file);
  int error = errno;
  if (file) {
    fclose(file);
  }
  line[good ? strcspn(line, "\r\n") : 0] = '\0';
  if (!file) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "cannot read %s: %s", path, strerror(error));
  }
  return strchr(line, ':') || problem_set(problem, EXIT_STATUS_USAGE, "write one line, USER:PASSWORD, into it",
                                          "%s has no user name and password", path);
}

/* The URL without the user name and the password that it may hold, on the heap. */
static char *without_user(const char *url, bool *had_user) {
  const char *host = strstr(url, "://");
  host = host ? host + 3 : url;
  const char *at = memrchr(host, '@', strcspn(host, "/?#"));
  size_t room = strlen(url) + 1;
  char *plain = malloc(room);
  *had_user = at && host > url;
  if (plain) {
    snprintf(plain, room, "%.*s%s", (int)(*had_user ? host - url : 0), url, *had_user ? at + 1 : url);
  }
  return plain;
}

/* -- the picture --------------------------------------------------------------------------------------------------------- */

static const unsigned char *pixel_at(const struct picture *picture, unsigned column, unsigned row, unsigned rows) {
  size_t x = (size_t)column * picture->width / COLUMNS, y = (size_t)row * picture->height / rows;
  return picture->pixels + (y * picture->width + x) * 3;
}

/* Two pixels a character, one above the other: the upper half block in one colour on the other. */
static void print_picture(const struct picture *picture) {
  unsigned rows = (unsigned)((size_t)COLUMNS * picture->height / picture->width);
  rows = rows < 2 ? 2 : rows > 2 * COLUMNS ? 2 * COLUMNS : rows;
  for (unsigned row = 0; row + 1 < rows; row += 2) {
    for (unsigned column = 0; column < COLUMNS; column++) {
      const unsigned char *up = pixel_at(picture, column, row, rows), *down = pixel_at(picture, column, row + 1, rows);
      printf("\x1b[38;2;%d;%d;%dm\x1b[48;2;%d;%d;%dm\u2580", up[0], up[1], up[2], down[0], down[1], down[2]);
    }
    puts("\x1b[0m");
  }
}

static bool write_picture(const char *path, const struct picture *picture, struct problem *problem) {
  FILE *file = fopen(path, "we");
  if (!file) {
    return problem_set(problem, EXIT_STATUS_USAGE, NULL, "cannot write %s: %s", path, strerror(errno));
  }
  bool good = picture_write(file, picture_of_name(path), picture, path, problem);
  if (fclose(file) != 0 && good) {
    good = problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "cannot write %s: %s", path, strerror(errno));
  }
  return good;
}

/* -- the answer ---------------------------------------------------------------------------------------------------------- */

static double number(const json_t *answer, const char *key) { return json_number_value(json_object_get(answer, key)); }

static void print_answer(const json_t *answer, const struct picture *picture) {
  const char *codec = json_string_value(json_object_get(answer, "codec"));
  const char *time = json_string_value(json_object_get(answer, "time"));
  char *safe = text_safe(codec ? codec : "?", false);
  printf("%s %ux%u", safe ? safe : "?", picture->width, picture->height);
  free(safe);
  if (number(answer, "rate") > 0) {
    printf(", %.4g pictures a second", number(answer, "rate"));
  }
  if (number(answer, "bitrate") > 0) {
    printf(", %.3g Mbit/s", number(answer, "bitrate") / 1e6);
  }
  if (time && strcmp(time, "rtcp") == 0) {
    printf(", tells the time (%.1f s from this machine's clock)", number(answer, "clock_ahead"));
  }
  if (number(answer, "lost") > 0) {
    printf(", %.0f packets or pictures lost", number(answer, "lost"));
  }
  putchar('\n');
}

/* A format of the camera's own aspect, not larger than full HD. */
static void print_yaml(const char *url, bool with_user, const struct picture *picture) {
  unsigned width = picture->width > MOST_WIDTH ? MOST_WIDTH : picture->width;
  unsigned height = (unsigned)((size_t)picture->height * width / picture->width);
  char *quoted = NULL;
  json_t *string = json_string(url); /* a string of JSON is one of YAML */
  quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
  json_decref(string);
  printf("\npipelines:\n  camera:\n    source:\n      url: %s\n%s      format: {pixels: nv12, width: %u, height: %u}\n"
         "    stages:\n      - convert: {to: rgb24}\n"
         "    sink:\n      socket: /run/framed/camera.sock\n",
         quoted ? quoted : "?",
         with_user ? "      credentials: camera        # a line USER:PASSWORD in /etc/framed/credentials/camera\n" : "",
         (width + 1) & ~1U, (height + 1) & ~1U);
  free(quoted);
}

static bool show(const struct invocation *invocation, const char *url, bool with_user, const json_t *answer,
                 const struct picture *picture, struct problem *problem) {
  if (invocation->output && !write_picture(invocation->output, picture, problem)) {
    return false;
  }
  if (invocation->json) {
    json_dumpf(answer, stdout, TEXT_JSON);
    putchar('\n');
    return true;
  }
  if (invocation->terminal) {
    print_picture(picture);
  }
  print_answer(answer, picture);
  print_yaml(url, with_user, picture);
  return true;
}

static bool try_camera(const struct invocation *invocation, const char *given, struct problem *problem) {
  char line[CREDENTIALS] = "";
  const char *from = invocation->credentials;
  if (from && !read_credentials(from, line, problem)) {
    return false;
  }
  bool had_user;
  char *url = without_user(given, &had_user);
  struct picture picture = {.pixels = NULL};
  json_t *answer = url ? camera_look(given, from ? line : NULL, &picture, problem) : NULL;
  explicit_bzero(line, sizeof line);
  bool good = answer && show(invocation, url, had_user || from, answer, &picture, problem);
  json_decref(answer);
  free(picture.pixels);
  free(url);
  return good;
}

bool command_camera(const struct invocation *invocation, struct problem *problem) {
  unsigned count = invocation->operand_count;
  bool finds = strcmp(invocation->operand, "find") == 0;
  if (finds && count <= 2) {
    return find_cameras(invocation, count == 2 ? invocation->operands[1] : NULL, problem);
  }
  if (count == 2 && strcmp(invocation->operand, "try") == 0) {
    return try_camera(invocation, invocation->operands[1], problem);
  }
  return problem_set(problem, EXIT_STATUS_USAGE, "write for example: framectl camera try rtsp://10.0.0.17/main",
                     "'camera' needs 'try' and a URL, or 'find'");
}
