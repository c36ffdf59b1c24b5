"""What happens once a process: the files of a launch are opened, signals and compilers are told."""
