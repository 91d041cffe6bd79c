"""Deltas are kept in columns from here on, and texts are not indexed by a trigger of inserts.

What is stored stays as it is, and is read as well.
"""

from django.db import migrations

import generation.fields


def drop_trigger(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("DROP TRIGGER IF EXISTS stream_words_added")


class Migration(migrations.Migration):
    dependencies = [("generation", "0004_one_index_of_batches")]

    operations = [
        # Of the state only: for the same column SQLite would make the largest table anew.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="deltabatch", name="deltas", field=generation.fields.DeltasField()
                ),
            ],
        ),
        # Nothing to undo: earlier versions make the trigger again by themselves.
        migrations.RunPython(drop_trigger, migrations.RunPython.noop),
    ]
