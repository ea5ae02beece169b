/* The parameters of the model, of the stages that prepare its input or read its output, and of those that run users' code. */
#include "gpu/record/parameters.h"
#include "gpu/record/stage_about.h"

#include <stddef.h>

#define FACTOR_LIMIT 1e6
#define LABELS_HELP  "File with the names of the classes, one a line, the first for class 0."

static const struct stage_parameter normalize[] = {
    [NORMALIZE_MEAN] = {.name = "mean",
                        .type = STAGE_NUMBERS,
                        .minimum = -FACTOR_LIMIT,
                        .maximum = FACTOR_LIMIT,
                        .help = "Subtracted after scaling: one number, or one for each channel of the result."},
    [NORMALIZE_STD] = {.name = "std",
                       .type = STAGE_NUMBERS,
                       .minimum = 1 / FACTOR_LIMIT,
                       .maximum = FACTOR_LIMIT,
                       .fallback = 1,
                       .help = "Divisor after the subtraction: one number, or one for each channel of the result."},
    [NORMALIZE_SCALE] = {.name = "scale",
                         .type = STAGE_NUMBER,
                         .minimum = -FACTOR_LIMIT,
                         .maximum = FACTOR_LIMIT,
                         .fallback = 1.0 / 255.0,
                         .help = "Factor that samples are multiplied by first; the default maps 0 to 255 onto 0 to 1."},
    [NORMALIZE_DTYPE] = {.name = "dtype",
                         .type = STAGE_CHOICE,
                         .maximum = NORMALIZE_FLOAT16,
                         .fallback = NORMALIZE_FLOAT32,
                         .choices = STAGE_WORDS("float32", "float16"),
                         .help = "Type of the result's elements."},
    [NORMALIZE_CHANNELS] = {.name = "channels",
                            .type = STAGE_CHOICE,
                            .maximum = NORMALIZE_BGR,
                            .fallback = NORMALIZE_KEEP,
                            .choices = STAGE_WORDS("keep", "rgb", "bgr"),
                            .help = "Order of the result's three channels: that of the input, or this one."},
    [NORMALIZE_LAYOUT] = {.name = "layout",
                          .type = STAGE_CHOICE,
                          .maximum = NORMALIZE_HWC,
                          .fallback = NORMALIZE_CHW,
                          .choices = STAGE_WORDS("chw", "hwc"),
                          .help = "Whether the result is [channels, height, width] or [height, width, channels]."},
};

const struct stage_about normalize_about = {
    .name = "normalize",
    .help = "Gives (in * scale - mean) / std as the tensor that a network takes; takes gray, rgb24 and bgr24.",
    STAGE_PARAMETERS(normalize),
};

static const struct stage_parameter model[] = {
    [MODEL_NAMED] = {.name = "name", .type = STAGE_WORD, .help = "The model of that name in the section `models`."},
    [MODEL_FILE] = {.name = "file", .type = STAGE_FILE, .help = "An ONNX file, for a model that is used once."},
    [MODEL_SHAPE] = {.name = "shape",
                     .type = STAGE_SETTINGS,
                     .help = "With `file`: sides of the input that the file leaves open, as {images: [1, 3, 640, 640]}."},
    [MODEL_OUTPUT] = {.name = "output",
                      .type = STAGE_WORD,
                      .help =
                          "The output that is the result, or `all` for all of them behind a table; the only one by default."},
};

const struct stage_about model_about = {
    .name = "model",
    .help = "Runs a model of ONNX; takes frames that are its input as they are, and gives one output or all.",
    STAGE_PARAMETERS(model),
    .runs_model = true,
    .is_foreign = true,
    .any_element = true,
};

static const struct stage_parameter top[] = {
    [TOP_K] = {.name = "k",
               .type = STAGE_INTEGER,
               .minimum = 1,
               .maximum = TOP_MOST,
               .fallback = 5,
               .help = "How many classes to give; fewer where there are fewer."},
    [TOP_LABELS] = {.name = "labels", .type = STAGE_FILE, .help = LABELS_HELP},
    [TOP_SOFTMAX] = {.name = "softmax",
                     .type = STAGE_CHOICE,
                     .maximum = true,
                     .choices = STAGE_WORDS("false", "true"),
                     .help = "Whether the model gives logits, of which softmax is to make shares of 1."},
};

const struct stage_about top_about = {
    .name = "top",
    .help =
        "Gives the classes of the largest scores, best first, as float32 [k, 2] of class and score; takes float32 tensors of "
        "one list.",
    STAGE_PARAMETERS(top),
};

static const struct stage_parameter detect[] = {
    [DETECT_LAYOUT] =
        {.name = "layout",
         .type = STAGE_CHOICE,
         .required = true,
         .maximum = DETECT_DETR,
         .choices = STAGE_WORDS("yolo5", "yolox", "yolo8", "end2end", "detr"),
         .help = "How the model lays out its result: yolo5 [1, n, 5 + classes], yolox the same on its grids, yolo8 (also "
                 "11) [1, 4 + classes, n], end2end (also v10) [1, n, 6], detr logits and boxes."},
    [DETECT_LABELS] = {.name = "labels", .type = STAGE_FILE, .help = LABELS_HELP},
    [DETECT_SCORE] = {.name = "score",
                      .type = STAGE_NUMBER,
                      .minimum = 0.001,
                      .maximum = 1,
                      .fallback = 0.25,
                      .help = "Least score of a box."},
    [DETECT_IOU] =
        {.name = "iou",
         .type = STAGE_NUMBER,
         .maximum = 1,
         .fallback = 0.45,
         .help = "Boxes that overlap a better one of their class by more than this share of both are dropped; 1 keeps all. "
                 "end2end and detr keep all unless it is given."},
    [DETECT_COUNT] = {.name = "most",
                      .type = STAGE_INTEGER,
                      .minimum = 1,
                      .maximum = DETECT_MOST,
                      .fallback = 100,
                      .help = "Most boxes in a result, and how many rows it has."},
    [DETECT_LOGITS] =
        {.name = "logits",
         .type = STAGE_CHOICE,
         .maximum = DETECT_SOFTMAX,
         .choices = STAGE_WORDS("sigmoid", "softmax"),
         .fallback = DETECT_SIGMOID,
         .help = "What makes scores of a detr model's logits: sigmoid, or softmax with a last class for none; only with "
                 "layout detr."},
};

const struct stage_about detect_about = {
    .name = "detect",
    .help =
        "Gives the boxes that a detector found, best first, as float32 [most, 6] of x, y, width, height, score and class, in "
        "pixels of the picture that came in; takes the tensors of the layouts below.",
    STAGE_PARAMETERS(detect),
    .any_element = true,
};

static const struct stage_parameter draw[] = {
    [DRAW_ON] = {.name = "on",
                 .type = STAGE_CHOICE,
                 .choices = STAGE_WORDS("input"),
                 .help = "What is drawn on: input, the picture that came into the pipeline."},
    [DRAW_LABELS] = {.name = "labels", .type = STAGE_FILE, .help = LABELS_HELP " Left out, those of detect."},
    [DRAW_THICKNESS] = {.name = "thickness",
                        .type = STAGE_INTEGER,
                        .minimum = 1,
                        .maximum = 64,
                        .fallback = 2,
                        .help = "Thickness of outlines in pixels."},
    [DRAW_SCORE] = {.name = "score", .type = STAGE_NUMBER, .maximum = 1, .help = "Least score of a box that is drawn."},
};

const struct stage_about draw_about = {
    .name = "draw",
    .help = "Draws the boxes of detect, with their classes and scores, into the picture that came into the pipeline; that is "
            "gray, rgb24, bgr24, nv12 or yuv420p.",
    STAGE_PARAMETERS(draw),
};

static const struct stage_parameter mask[] = {
    [MASK_SCALE] = {.name = "scale",
                    .type = STAGE_NUMBER,
                    .maximum = 255,
                    .fallback = 1,
                    .help = "Factor that makes levels of classes, so that they can be told apart by eye."},
};

const struct stage_about mask_about = {
    .name = "mask",
    .help =
        "Gives the class of the largest value at each pixel as a gray image; takes float32 planes [classes, height, width].",
    STAGE_PARAMETERS(mask),
};

static const struct stage_parameter image[] = {
    [IMAGE_SCALE] =
        {.name = "scale",
         .type = STAGE_NUMBERS,
         .minimum = -FACTOR_LIMIT,
         .maximum = FACTOR_LIMIT,
         .fallback = 255,
         .help = "Factor that makes levels of values: one number, or one for each plane; the default maps 0 to 1 onto 0 "
                 "to 255."},
    [IMAGE_OFFSET] = {.name = "offset",
                      .type = STAGE_NUMBERS,
                      .minimum = -FACTOR_LIMIT,
                      .maximum = FACTOR_LIMIT,
                      .help = "Added to the product: one number, or one for each plane."},
    [IMAGE_CHANNELS] = {.name = "channels",
                        .type = STAGE_CHOICE,
                        .maximum = 1,
                        .choices = STAGE_WORDS("rgb", "bgr"),
                        .help = "What three planes are, in their order; the result is rgb24."},
};

const struct stage_about image_about = {
    .name = "image",
    .help = "Gives in * scale + offset as pixels: one float32 plane as gray, three as rgb24.",
    STAGE_PARAMETERS(image),
};

enum { MOST_BLOCKS = 65535, MOST_SHARED = 227 << 10 };

static const struct stage_parameter kernel[] = {
    [KERNEL_FILE] = {.name = "source",
                     .type = STAGE_FILE,
                     .required = true,
                     .help =
                         "CUDA C, which is compiled at start, or a .cubin, .fatbin or .ptx file; framed-kernel.h says what a "
                         "kernel takes."},
    [KERNEL_NAME] = {.name = "name", .type = STAGE_WORD, .required = true, .help = "The kernel's function in it."},
    [KERNEL_BLOCK] = {.name = "block",
                      .type = STAGE_NUMBERS,
                      .minimum = 1,
                      .maximum = KERNEL_THREADS,
                      .fallback = 1,
                      .help = "Threads of a block in x, y and z; [32, 8] unless given."},
    [KERNEL_GRID] = {.name = "grid",
                     .type = STAGE_NUMBERS,
                     .minimum = 1,
                     .maximum = MOST_BLOCKS,
                     .fallback = 1,
                     .help = "Blocks in x, y and z; so many that each place of the result has a thread, unless given."},
    [KERNEL_SHARED] = {.name = "shared",
                       .type = STAGE_INTEGER,
                       .maximum = MOST_SHARED,
                       .help = "Bytes of dynamic shared memory of a block."},
    [KERNEL_PARAMETERS] =
        {.name = "parameters",
         .type = STAGE_SETTINGS,
         .help = "The kernel's arguments behind the frame and the result, in its order: a number, or a list for a "
                 "floatN or intN."},
    [KERNEL_OUTPUT] =
        {.name = "output",
         .type = STAGE_SETTINGS,
         .help = "The result's format: {pixels, width, height} or {dtype, shape}; what is left out is as in the frame."},
    [KERNEL_CPU] = {.name = "cpu",
                    .type = STAGE_FILE,
                    .help =
                        "A library that stands in for the kernel on the CPU backend; framed-stage(3) says how to write one."},
};

const struct stage_about kernel_about = {
    .name = "kernel",
    .help = "Runs a CUDA kernel of your own; takes every format and gives what `output` says.",
    STAGE_PARAMETERS(kernel),
    .is_foreign = true,
    .any_element = true,
};

static const struct stage_parameter library[] = {
    [LIBRARY_FILE] = {.name = "file",
                      .type = STAGE_FILE,
                      .required = true,
                      .help = "The shared library; framed-stage(3) says how to write one."},
    [LIBRARY_SETTINGS] = {.name = "settings",
                          .type = STAGE_SETTINGS,
                          .help = "What the library takes: names with numbers or texts."},
};

const struct stage_about library_about = {
    .name = "library",
    .help = "Runs a shared library of your own in the worker process of the device; takes and gives what that says.",
    STAGE_PARAMETERS(library),
    .is_foreign = true,
    .any_element = true,
};
