dist_man_MANS += man/tcc-log.1
dist_man_MANS += man/tcc-tune.1
dist_man_MANS += man/te.5
