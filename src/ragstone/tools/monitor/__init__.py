"""Logged interactions of an application in production: read once each, counted by windows, watched for changes."""
