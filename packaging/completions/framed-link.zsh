#compdef framed-link
_arguments \
  '(-c --config)'{-c,--config}'[read this configuration]:file:_files -g "*.y(a|)ml"' \
  '--check[say every error, or what would be done]' \
  '(- *)--version[print the version]' \
  '(- *)--help[print a summary]'
