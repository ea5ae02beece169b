#include "daemon/camera/status.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/log_text.h"

enum { MOST_TEXT = 200, MOST_SIDE = 65536 };

const char *const camera_state_names[CAMERA_STATES] = {"starting", "connecting", "running", "waiting"};

static double take_number(const json_t *message, const char *key, double most) {
  const json_t *value = json_object_get(message, key);
  double number = json_number_value(value); /* 0 if it is none */
  return isfinite(number) && number >= 0 && number <= most ? number : 0;
}

static uint64_t take_count(const json_t *message, const char *key) {
  json_int_t number = json_integer_value(json_object_get(message, key));
  return number > 0 ? (uint64_t)number : 0;
}

static void take_picture(const json_t *message, unsigned picture[4]) {
  const json_t *list = json_object_get(message, "picture");
  for (size_t i = 0; i < 4; i++) {
    json_int_t side = json_integer_value(json_array_get(list, i));
    picture[i] = side > 0 && side <= MOST_SIDE ? (unsigned)side : 0;
  }
}

static void take_word(const json_t *message, const char *key, char word[CAMERA_WORD]) {
  static const char *const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  const char *text = json_string_value(json_object_get(message, key));
  bool is_word = text && strlen(text) < CAMERA_WORD && strspn(text, letters) == strlen(text);
  snprintf(word, CAMERA_WORD, "%s", is_word ? text : "");
}

static void take_text(const json_t *message, char text[CAMERA_TEXT]) {
  char cut[MOST_TEXT + 1];
  const char *said = json_string_value(json_object_get(message, "text"));
  snprintf(cut, sizeof cut, "%s", said ? said : "");
  log_text_escape(text, CAMERA_TEXT, cut);
}

static bool take_state(const json_t *message, enum camera_state *state) {
  const char *name = json_string_value(json_object_get(message, "state"));
  enum camera_state found = CAMERA_CONNECTING;
  while (name && found < CAMERA_STATES && strcmp(name, camera_state_names[found]) != 0) {
    found++;
  }
  *state = found;
  return name && found < CAMERA_STATES;
}

bool camera_hear(struct camera_view *view, const char *message, size_t length) {
  struct camera_view heard = {.state = CAMERA_STARTING};
  json_t *document = json_loadb(message, length, JSON_REJECT_DUPLICATES, NULL);
  if (!json_is_object(document) || !take_state(document, &heard.state)) {
    json_decref(document);
    return false;
  }
  take_word(document, "token", heard.token);
  take_text(document, heard.text);
  take_word(document, "codec", heard.codec);
  take_word(document, "decoder", heard.decoder);
  take_word(document, "time", heard.time);
  heard.width = (unsigned)take_number(document, "width", MOST_SIDE);
  heard.height = (unsigned)take_number(document, "height", MOST_SIDE);
  take_picture(document, heard.picture);
  heard.rate = take_number(document, "rate", 1e6);
  heard.bitrate = take_number(document, "bitrate", 1e12);
  heard.retry = take_number(document, "retry", 3600);
  heard.frames = take_count(document, "frames");
  heard.lost = take_count(document, "lost");
  heard.reconnects = take_count(document, "reconnects");
  json_decref(document);
  if (heard.state == CAMERA_WAITING && !heard.token[0]) {
    snprintf(heard.token, sizeof heard.token, "camera.ended");
  }
  if (heard.token[0] && !heard.text[0]) {
    snprintf(heard.text, sizeof heard.text, "the camera sends no pictures");
  }
  *view = heard;
  return true;
}
