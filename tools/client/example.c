/* Sends a hundred frames, each of one grey or number, through a pipeline whose sink is `reply`, and checks the results. */
#include <framed.h>
#include <stdio.h>
#include <string.h>

/* Tensors of float32 and one image format hold numbers; all others hold bytes. */
static int has_numbers(const char *format) {
  return strncmp(format, "float32[", 8) == 0 || strncmp(format, "grayf32le ", 10) == 0;
}

static void fill(void *frame, const struct framed_info *info, unsigned value) {
  if (!has_numbers(info->input_format)) {
    memset(frame, (int)value, info->input_bytes);
    return;
  }
  float *numbers = frame;
  for (size_t i = 0; i < info->input_bytes / sizeof *numbers; i++) {
    numbers[i] = (float)value;
  }
}

static void look_at(const struct framed_result *result, const struct framed_info *info) {
  double us = (double)result->steps[FRAMED_TOTAL] / 1e3;
  if (result->data && has_numbers(info->output_format)) {
    printf("frame %llu: first number %g, %.1f us\n", (unsigned long long)result->sequence, *(const float *)result->data, us);
  } else if (result->data) {
    printf("frame %llu: first byte %u, %.1f us\n", (unsigned long long)result->sequence, *(const unsigned char *)result->data,
           us);
  } else {
    printf("frame %llu: dropped (%s)\n", (unsigned long long)result->sequence, framed_fate_name(result->fate));
  }
}

int main(int argc, char **argv) {
  struct framed_error error;
  struct framed_result result;
  if (argc > 1 && argv[1][0] == '-') {
    int wrong = strcmp(argv[1], "--help") != 0;
    fprintf(wrong ? stderr : stdout,
            "usage: framed-example [SOCKET]\n\n"
            "Sends 100 frames to a pipeline with `protocol: native` and `reply: true`, whose source socket is SOCKET\n"
            "(default: /run/framed/cam0.sock), and says what became of each.\n");
    return wrong;
  }
  struct framed *client = framed_connect(argc > 1 ? argv[1] : "/run/framed/cam0.sock", NULL, &error);
  if (!client) {
    fprintf(stderr, "example: %s\n", error.text);
    return 1;
  }
  const struct framed_info *info = framed_info(client);
  int events = 0;
  printf("%s: frames are %s, results %s\n", info->pipeline, info->input_format, info->output_format);
  for (unsigned sent = 0; events >= 0 && !(events & FRAMED_END);) {
    void *frame = sent < 100 ? framed_acquire(client) : NULL;
    if (frame) {
      fill(frame, info, sent);
      framed_submit(client, frame, sent++, 0, 0);
      if (sent == 100) {
        framed_finish(client);
      }
    }
    while (framed_receive(client, &result) > 0) {
      look_at(&result, info);
      framed_release(client, &result);
    }
    events = framed_poll(client, sent < 100 ? FRAMED_RESULT | FRAMED_ROOM : FRAMED_RESULT, -1);
  }
  fprintf(stderr, "%s", events < 0 ? framed_problem(client)->text : "");
  framed_close(client);
  return events < 0;
}
