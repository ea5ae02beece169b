#!/bin/sh
# Makes ten seconds of video for trials: three objects that move over a still textured picture.
#
#   tools/demo/video.sh FILE.y4m
set -eu
[ $# = 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 64; }

texture="mandelbrot=size=640x480:rate=30:start_scale=0.02:start_x=-0.7436:start_y=0.1318:maxiter=300,\
trim=end_frame=1,eq=saturation=0.6:brightness=-0.05,loop=loop=-1:size=1,setpts=N/TB/30"
ball="testsrc2=size=110x110:rate=30,format=yuva420p,\
geq=lum='lum(X,Y)':cb='cb(X,Y)':cr='cr(X,Y)':a='255*lt(hypot(X-55,Y-55),54)'"
brick="color=c=orange:size=90x60:rate=30,drawgrid=width=15:height=15:color=black@0.6"
kite="color=c=white:size=70x70:rate=30,format=yuva420p,\
geq=lum='235-2*hypot(X-35,Y-35)':cb=90:cr=160:a='255*lt(abs(X-35)+abs(Y-35),35)'"

ffmpeg -nostdin -v error -y -f lavfi -i "$texture" -f lavfi -i "$ball" -f lavfi -i "$brick" -f lavfi -i "$kite" \
  -filter_complex "[0][1]overlay=x='265+230*sin(1.1*t)':y='185+150*cos(0.9*t)'[a];\
[a][2]overlay=x='mod(90*t,730)-90':y='80+25*sin(2*t)'[b];\
[b][3]overlay=x='500-55*t':y='360-120*abs(sin(2.5*t))',format=yuv420p" -t 10 -f yuv4mpegpipe "$1"
