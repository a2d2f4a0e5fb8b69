"""Runs the services of one machine as processes under one supervisor."""
