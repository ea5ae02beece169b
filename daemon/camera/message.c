#include "daemon/camera/message.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/camera/credential.h"

enum { MESSAGE_BYTES = 16384 }; /* the longest URL and credentials take 6 KiB */

/* JSON is written by hand: jansson would leave copies of the password in freed memory. */
struct message {
  char bytes[MESSAGE_BYTES];
  size_t length;
};

static void put(struct message *message, const char *text) {
  size_t length = strlen(text);
  assert(message->length + length < sizeof message->bytes);
  memcpy(message->bytes + message->length, text, length);
  message->length += length;
}

/* The text has no control characters: the configuration and the credentials may have none. */
static void put_text(struct message *message, const char *key, const char *text) {
  put(message, message->length == 0 ? "{\"" : ", \"");
  put(message, key);
  put(message, "\": \"");
  for (; *text; text++) {
    const char letter[] = {*text, '\0'};
    put(message, *text == '"' || *text == '\\' ? "\\" : "");
    put(message, letter);
  }
  put(message, "\"");
}

static void put_number(struct message *message, const char *key, const char *number) {
  put(message, message->length == 0 ? "{\"" : ", \"");
  put(message, key);
  put(message, "\": ");
  put(message, number);
}

static void put_count(struct message *message, const char *key, unsigned count) {
  char number[16];
  snprintf(number, sizeof number, "%u", count);
  put_number(message, key, number);
}

static void make_message(struct message *message, const struct config_pipeline *pipeline, const char *pixels,
                         const struct credential *credential) {
  const struct config_source *source = &pipeline->source;
  put_count(message, "version", 1);
  put_text(message, "pipeline", pipeline->name);
  put_text(message, "url", source->path);
  if (source->credentials) {
    put_text(message, "user", credential->user);
    put_text(message, "password", credential->password);
  }
  put_count(message, "width", source->format.width);
  put_count(message, "height", source->format.height);
  put_text(message, "pixels", pixels);
  put_text(message, "transport", config_transport_names[source->transport]);
  put_number(message, "silence", "1.0"); /* seconds without a picture, at least, until the stream is opened again */
  put(message, "}");
}

bool message_send(int control, const struct config_pipeline *pipeline, const char *pixels, struct failure *failure) {
  struct credential credential = {{0}, {0}};
  struct message message = {.length = 0};
  bool sent = !pipeline->source.credentials || credential_read(pipeline->source.credentials, &credential, failure);
  if (sent) {
    make_message(&message, pipeline, pixels, &credential);
    sent = send(control, message.bytes, message.length, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)message.length ||
           failure_set_system(failure, errno, NULL, "framed-camera cannot be told what to fetch");
  }
  explicit_bzero(&message, sizeof message);
  credential_clear(&credential);
  return sent;
}
