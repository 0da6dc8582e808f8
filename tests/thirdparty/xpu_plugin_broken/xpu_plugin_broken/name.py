"""Its entry point bears the name of another plugin's."""
