"""What tools print about devices and the processes on them: one file per form, all in the table `forms.FORMS`."""
