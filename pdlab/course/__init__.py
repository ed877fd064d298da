"""Course: exercises, build, grading, figures and the pdlab command."""
