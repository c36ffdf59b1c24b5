"""What is around every page: the sidebar, the navigation, and a log that is followed."""
