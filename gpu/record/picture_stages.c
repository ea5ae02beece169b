/* The parameters of the stages that compute pictures, or count what is in them. */
#include "gpu/format.h"
#include "gpu/record/parameters.h"
#include "gpu/record/stage_about.h"

#include <stddef.h>

#define FACTOR_LIMIT 1e6 /* a float counts the products with 8 bit samples exactly up to here */
#define LEVEL_LIMIT  1e9

static const struct stage_parameter affine[] = {
    {.name = "scale",
     .type = STAGE_NUMBER,
     .minimum = -FACTOR_LIMIT,
     .maximum = FACTOR_LIMIT,
     .fallback = 1,
     .help = "Factor that each sample is multiplied by; 8 bit samples are rounded, halves upwards, and saturate."},
    {.name = "offset",
     .type = STAGE_NUMBER,
     .minimum = -FACTOR_LIMIT,
     .maximum = FACTOR_LIMIT,
     .help = "Added after the multiplication, in units of a sample: levels for 8 bit formats."},
};

const struct stage_about affine_about = {
    .name = "affine",
    .help = "Multiplies every sample by a factor and adds an offset, in float32; takes and gives any format.",
    STAGE_PARAMETERS(affine),
};

static const struct stage_parameter work[] = {
    {.name = "rounds",
     .type = STAGE_INTEGER,
     .minimum = 1,
     .maximum = 100000,
     .fallback = 100,
     .help = "How many times v = sin(v) * cos(v) + v is applied to each sample; 8 bit samples count as 0 to 1."},
};

const struct stage_about work_about = {
    .name = "work",
    .help = "Applies v = sin(v) * cos(v) + v many times to every sample, to load the device; takes and gives any format.",
    STAGE_PARAMETERS(work),
};

/* The words of `to` are in the order of enum pixel_format, which the stage counts on. */
static const struct stage_parameter convert[] = {
    [CONVERT_TO] = {.name = "to",
                    .type = STAGE_CHOICE,
                    .required = true,
                    .maximum = PIXELS_COUNT - PIXELS_GRAY - 1,
                    .choices = STAGE_WORDS("gray", "rgb24", "bgr24", "nv12", "yuv420p", "yuyv422", "grayf32le"),
                    .help = "Pixel format of the result, under ffmpeg's name."},
    [CONVERT_MATRIX] = {.name = "matrix",
                        .type = STAGE_CHOICE,
                        .maximum = CONVERT_BT709,
                        .choices = STAGE_WORDS("bt601", "bt709"),
                        .help =
                            "Weights of red, green and blue in luma and gray: bt601 for standard, bt709 for high definition."},
    [CONVERT_RANGE] =
        {.name = "range",
         .type = STAGE_CHOICE,
         .maximum = CONVERT_FULL,
         .choices = STAGE_WORDS("limited", "full"),
         .help = "Levels of the YUV formats: limited (luma 16 to 235) or full (0 to 255); gray and RGB are always full."},
};

const struct stage_about convert_about = {
    .name = "convert",
    .help = "Changes the pixel format; takes any image and gives the format that is asked for.",
    STAGE_PARAMETERS(convert),
};

static const struct stage_parameter resize[] = {
    [RESIZE_WIDTH] = {.name = "width",
                      .type = STAGE_INTEGER,
                      .required = true,
                      .minimum = 1,
                      .maximum = FORMAT_MAX_SIDE,
                      .help = "Width of the result in pixels."},
    [RESIZE_HEIGHT] = {.name = "height",
                       .type = STAGE_INTEGER,
                       .required = true,
                       .minimum = 1,
                       .maximum = FORMAT_MAX_SIDE,
                       .help = "Height of the result in pixels."},
    [RESIZE_FILTER] = {.name = "filter",
                       .type = STAGE_CHOICE,
                       .maximum = RESIZE_AREA,
                       .choices = STAGE_WORDS("nearest", "bilinear", "area"),
                       .fallback = RESIZE_BILINEAR,
                       .help = "How pixels are made: nearest, bilinear (best for enlarging) or area (best for reducing)."},
    [RESIZE_FIT] = {.name = "fit",
                    .type = STAGE_CHOICE,
                    .maximum = RESIZE_LETTERBOX,
                    .choices = STAGE_WORDS("stretch", "letterbox"),
                    .fallback = RESIZE_STRETCH,
                    .help = "Whether the image fills the result (stretch) or keeps its proportions between bars (letterbox)."},
    [RESIZE_FILL] = {.name = "fill",
                     .type = STAGE_NUMBER,
                     .maximum = 255,
                     .help = "Level of the bars, 0 to 255 in every format; left out, YUV formats take 16, their black."},
};

const struct stage_about resize_about = {
    .name = "resize",
    .help = "Changes the size of an image; takes any pixel format but yuyv422, and keeps it.",
    STAGE_PARAMETERS(resize),
};

static const struct stage_parameter blur[] = {
    [BLUR_SIGMA] = {.name = "sigma",
                    .type = STAGE_NUMBER,
                    .required = true,
                    .minimum = 0.1,
                    .maximum = 64,
                    .help = "Standard deviation of the Gaussian in pixels."},
    [BLUR_RADIUS] =
        {.name = "radius",
         .type = STAGE_INTEGER,
         .maximum = BLUR_MAX_RADIUS,
         .help = "Pixels that count on each side; 0 takes 3 times sigma for 8 bits and 4 times for floats, rounded up."},
};

const struct stage_about blur_about = {
    .name = "blur",
    .help = "Smooths with a Gaussian; takes gray, rgb24, bgr24 and grayf32le, and keeps the format.",
    STAGE_PARAMETERS(blur),
};

static const struct stage_parameter sobel[] = {
    [SOBEL_OUTPUT] = {.name = "output",
                      .type = STAGE_CHOICE,
                      .maximum = SOBEL_Y,
                      .choices = STAGE_WORDS("magnitude", "x", "y"),
                      .help = "What is given for each pixel: the length of the gradient, or the size of its x or y component."},
    [SOBEL_SCALE] = {.name = "scale",
                     .type = STAGE_NUMBER,
                     .maximum = 1e6,
                     .fallback = 1,
                     .help = "Factor on the result, before 8 bit results saturate; a sharp edge of 64 levels has length 256."},
};

const struct stage_about sobel_about = {
    .name = "sobel",
    .help =
        "Finds edges: the gradient of gray and grayf32le, in the same format, by 3 x 3 samples; beyond its edges the image is "
        "mirrored about the outermost ones.",
    STAGE_PARAMETERS(sobel),
};

static const struct stage_parameter threshold[] = {
    [THRESHOLD_LEVEL] =
        {.name = "level",
         .type = STAGE_NUMBER,
         .minimum = -LEVEL_LIMIT,
         .maximum = LEVEL_LIMIT,
         .fallback = 128,
         .help = "Samples strictly above this count as above; 0 to 255 for 8 bit formats, and 0.5 unless given for float32."},
    [THRESHOLD_MODE] =
        {.name = "mode",
         .type = STAGE_CHOICE,
         .maximum = THRESHOLD_TO_ZERO,
         .fallback = THRESHOLD_BINARY,
         .choices = STAGE_WORDS("binary", "truncate", "to_zero"),
         .help = "binary gives high above the level and low elsewhere, truncate cuts off at the level, to_zero keeps what "
                 "is above and gives low elsewhere."},
    [THRESHOLD_LOW] = {.name = "low",
                       .type = STAGE_NUMBER,
                       .minimum = -LEVEL_LIMIT,
                       .maximum = LEVEL_LIMIT,
                       .help = "What samples that are not above the level become under binary and to_zero."},
    [THRESHOLD_HIGH] = {.name = "high",
                        .type = STAGE_NUMBER,
                        .minimum = -LEVEL_LIMIT,
                        .maximum = LEVEL_LIMIT,
                        .fallback = 255,
                        .help = "What samples above the level become under binary; 1 unless given for float32 formats."},
};

const struct stage_about threshold_about = {
    .name = "threshold",
    .help = "Replaces samples above and below a level; takes gray, grayf32le and tensors and gives the same format.",
    STAGE_PARAMETERS(threshold),
};

static const struct stage_parameter motion[] = {
    [MOTION_RATE] = {.name = "rate",
                     .type = STAGE_NUMBER,
                     .maximum = 1,
                     .fallback = 0.05,
                     .help = "Share of the difference by which the background follows each frame; 0 keeps the first frame."},
    [MOTION_THRESHOLD] = {.name = "threshold",
                          .type = STAGE_NUMBER,
                          .maximum = 255,
                          .fallback = 25,
                          .help = "Levels by which a pixel must differ from the background to count as changed."},
    [MOTION_OUTPUT] =
        {.name = "output",
         .type = STAGE_CHOICE,
         .maximum = MOTION_GIVES_BOXES,
         .fallback = MOTION_GIVES_MASK,
         .choices = STAGE_WORDS("mask", "boxes"),
         .help = "mask gives a gray image, 255 where changed; boxes gives a float32 tensor [boxes + 1, 5] of a summary and "
                 "x, y, width, height, changed pixels of each box."},
    [MOTION_BOXES] = {.name = "boxes",
                      .type = STAGE_INTEGER,
                      .minimum = 1,
                      .maximum = 256,
                      .fallback = 16,
                      .help = "Most boxes to list, those with the most changed pixels first; only with output boxes."},
    [MOTION_CELL] = {.name = "cell",
                     .type = STAGE_INTEGER,
                     .minimum = 4,
                     .maximum = 256,
                     .fallback = 16,
                     .help = "Side in pixels of the grid's cells, which boxes are made of; only with output boxes."},
    [MOTION_FILL] = {.name = "fill",
                     .type = STAGE_NUMBER,
                     .maximum = 1,
                     .fallback = 0.1,
                     .help = "Share of a cell's pixels that must have changed for the cell to count; only with output boxes."},
};

const struct stage_about motion_about = {
    .name = "motion",
    .help = "Compares gray frames with a background that follows them, and gives a mask of what changed or a list of boxes.",
    STAGE_PARAMETERS(motion),
};

static const struct stage_parameter stats[] = {
    [STATS_LOW] = {.name = "low",
                   .type = STAGE_NUMBER,
                   .minimum = -LEVEL_LIMIT,
                   .maximum = LEVEL_LIMIT,
                   .help = "Lower end of the histogram's first bin; smaller samples count in that bin."},
    [STATS_HIGH] =
        {.name = "high",
         .type = STAGE_NUMBER,
         .minimum = -LEVEL_LIMIT,
         .maximum = LEVEL_LIMIT,
         .fallback = 256,
         .help =
             "Upper end of the histogram's last bin, 1 unless given for float32 formats; larger samples count in that bin."},
};

const struct stage_about stats_about = {
    .name = "stats",
    .help = "Gives a float32 tensor of 260: minimum, maximum, mean, share of finite samples, and a histogram of 256 shares; "
            "takes gray, rgb24, bgr24, grayf32le and tensors.",
    STAGE_PARAMETERS(stats),
};
