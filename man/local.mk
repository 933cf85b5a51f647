dist_man_MANS += man/tcc-log.1
