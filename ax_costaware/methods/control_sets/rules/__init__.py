"""Rules that choose a control set: numbers in, a choice with its reason out."""
