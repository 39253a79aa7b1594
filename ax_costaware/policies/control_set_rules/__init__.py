"""Rules that choose a control set: numbers in, a decision with its reason out."""
