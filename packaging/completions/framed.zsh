#compdef framed
_arguments \
  '(-c --config)'{-c,--config}'[read this configuration]:file:_files -g "*.y(a|)ml"' \
  '--check[say every error, or what will be pinned]' \
  '--state[with --check\: whether it can take over from a state of that version]:version' \
  '(- *)--print-config[print the configuration with all defaults]' \
  '(- *)--print-schema[print a JSON schema of the file]' \
  '(- *)--print-manual[print the table of keys]' \
  '(- *)--print-stages[print the stages, or what one takes]::stage' \
  '--replay[compare what two configurations make of a recording]:recording:_files' '--against[the new configuration]:file:_files' \
  '(- *)--try[put one frame through the pipeline of a configuration]:text' \
  '(- *)--version[print version and backends]' \
  '(- *)--help[print a summary]'
