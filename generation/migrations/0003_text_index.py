"""Index the words of the stored texts."""

from django.db import migrations

from generation.text_index import create_index, drop_index


class Migration(migrations.Migration):
    dependencies = [("generation", "0002_keys_reviews_trends")]

    operations = [migrations.RunPython(create_index, drop_index)]
